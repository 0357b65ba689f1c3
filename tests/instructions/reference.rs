//! What instruction counts are compared with: the bare work of a short message in the same language, by the same compiler. An
//! envelope is made and a line filled, the sequence number last; the line is found, compared and read, and acknowledged.
//! With checked indexes and a borrow, as the library has them, and nothing else.
#![no_std]

use core::cell::RefCell;
use core::sync::atomic::{AtomicU64, Ordering};

const LINES: usize = 64;

struct End {
    number: u32,
    mask: u32,
    bytes: u64,
}

struct Queue {
    ends: [RefCell<End>; 2],
    lines: [[AtomicU64; 8]; LINES],
    ack: AtomicU64,
}

// SAFETY: the program has one thread.
unsafe impl Sync for Queue {}

const fn end() -> RefCell<End> {
    RefCell::new(End {
        number: 0,
        mask: LINES as u32 - 1,
        bytes: 0,
    })
}

static QUEUE: Queue = Queue {
    ends: [end(), end()],
    lines: [const { [const { AtomicU64::new(0) }; 8] }; LINES],
    ack: AtomicU64::new(0),
};

#[unsafe(no_mangle)]
extern "C" fn reference_send(data: &u64, source: u32, tag: i32, context: u64) -> bool {
    let mut end = QUEUE.ends[0].borrow_mut();
    if u64::from(end.number) - QUEUE.ack.load(Ordering::Acquire) >= LINES as u64 {
        return false;
    }
    let Some(line) = QUEUE.lines.get((end.number & end.mask) as usize) else {
        return false;
    };
    line[1].store(u64::from(source) << 32 | u64::from(tag as u32), Ordering::Relaxed);
    line[2].store(context, Ordering::Relaxed);
    line[3].store(*data, Ordering::Relaxed);
    end.number = end.number.wrapping_add(1);
    line[0].store(8 << 48 | u64::from(end.number), Ordering::Release);
    end.bytes += 8;
    true
}

#[unsafe(no_mangle)]
extern "C" fn reference_receive(data: &mut u64, source: u32, tag: i32, context: u64) -> bool {
    let mut end = QUEUE.ends[1].borrow_mut();
    let Some(line) = QUEUE.lines.get((end.number & end.mask) as usize) else {
        return false;
    };
    if line[0].load(Ordering::Acquire) != 8 << 48 | u64::from(end.number.wrapping_add(1))
        || line[1].load(Ordering::Relaxed) != u64::from(source) << 32 | u64::from(tag as u32)
        || line[2].load(Ordering::Relaxed) != context
    {
        return false;
    }
    *data = line[3].load(Ordering::Relaxed);
    end.number = end.number.wrapping_add(1);
    end.bytes += 8;
    QUEUE.ack.store(u64::from(end.number), Ordering::Release);
    true
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// Named by what the compiler brings along, and never called.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
