//! Interrupts.

use super::{End, Harness, Outcome};
use crate::{
    Access, Interrupt, LocalMemory, PacketQueue, Peer, Permission, Port, Priority, Remote, RemoteMemory,
    SegmentId, TrySend, Wake,
};
use std::cell::Cell;
use std::time::Duration;

/// Longer than any case may take: whoever sleeps so long was not rung.
const FOREVER: Duration = Duration::from_secs(40);

/// Sleep until `ready`. Panics when a sleep runs into its time-out: something was slept over.
async fn sleep_until<H: Harness>(end: &End<H::Fabric>, what: &str, mut ready: impl FnMut() -> bool) {
    while !ready() {
        match end.fabric.sleep(FOREVER, &mut ready) {
            // Not asked again: asking may take what was there.
            Wake::Ready => return,
            Wake::Rung | Wake::Interrupted => {}
            Wake::Timeout => assert!(!H::PARALLEL, "slept over {what}"),
        }
        if !H::PARALLEL {
            end.pause().await;
        }
    }
}

/// What is there before the sleep is not slept over, and is asked for once the flag is up.
pub fn ready_is_asked_first<H: Harness>(harness: &H) -> Outcome {
    harness.run(1, async |end: &End<H::Fabric>| {
        let asked = Cell::new(0);
        let wake = end.fabric.sleep(FOREVER, &mut || {
            asked.set(asked.get() + 1);
            true
        });
        assert_eq!((wake, asked.get()), (Wake::Ready, 1));
    });
    Outcome::Held
}

/// A sleep that nobody ends, ends by itself.
pub fn timeout<H: Harness>(harness: &H) -> Outcome {
    harness.run(2, async |end: &End<H::Fabric>| {
        // A wake-up for no reason is allowed, for ever is not.
        end.until("a time-out", || {
            end.fabric.sleep(Duration::from_millis(2), &mut || false) == Wake::Timeout
        })
        .await;
        assert_ne!(end.fabric.sleep(Duration::ZERO, &mut || false), Wake::Ready);
        end.barrier().await;
    });
    Outcome::Held
}

/// A flag goes back and forth between two that sleep for it, many times; none of the wake-ups is lost.
pub fn no_wake_is_lost<H: Harness>(harness: &H) -> Outcome {
    let rounds: u64 = if H::PARALLEL { 3000 } else { 300 };
    harness.run(2, async |end: &End<H::Fabric>| {
        let access = Access::Everyone(Permission::ReadWrite);
        let mine = end.fabric.export(SegmentId(1), 64, access).unwrap();
        let theirs = end.import(end.next(), SegmentId(1), 64).await;
        let bell = end.fabric.bell(end.next());
        let mut rng = fastrand::Rng::with_seed(u64::from(end.me()));
        for round in 1..=rounds {
            if end.me() == 1 {
                sleep_until::<H>(end, "a flag", || mine.load(0) >= round).await;
            }
            // Arrive at the other's sleep from before and from after.
            for _ in 0..rng.u32(0..200) {
                std::hint::spin_loop();
            }
            theirs.put_word(0, round).unwrap();
            if round % 2 == 0 {
                end.fabric.wake(end.next());
            } else {
                end.fabric.wake_by(&bell);
            }
            if end.me() == 0 {
                sleep_until::<H>(end, "a flag", || mine.load(0) >= round).await;
            }
        }
        theirs.fence().unwrap();
    });
    Outcome::Held
}

/// A sleeper that is woken after a packet finds it, whoever of several sends.
pub fn packets_and_wake<H: Harness>(harness: &H) -> Outcome {
    const SIZE: u32 = 3;
    const EACH: u32 = 300;
    harness.run(SIZE, async |end: &End<H::Fabric>| {
        if end.me() == 0 {
            let mut got = 0;
            while got < EACH * (SIZE - 1) {
                // Poll inside, so that `ready` is what it will be in real use.
                sleep_until::<H>(end, "a packet", || end.fabric.poll_packet(Port::Fm, |_, _, _| ())).await;
                got += 1;
            }
        } else {
            for i in 0..EACH {
                end.until("room", || {
                    end.fabric
                        .try_send(Peer(0), Port::Fm, Priority::Low, &i.to_le_bytes())
                        == TrySend::Sent
                })
                .await;
                end.fabric.wake(Peer(0));
                if i % 5 == 0 {
                    end.pause().await;
                }
            }
        }
    });
    Outcome::Held
}
