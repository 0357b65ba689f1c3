//! PMI-1: the line protocol that Hydra, Slurm and others serve on an inherited descriptor. Commands and replies are
//! lines of `name=value` words, the first of which is `cmd=`. What a server sends is input: lines are bounded,
//! words are checked, and a reply to something else is an error.

use super::text::Texts;
use super::wire::Wire;
use super::{Launched, broken};
use crate::error::JobError;
use crate::error::clip;
use crate::hosts::HostMap;

const SPEAKS: &str = "PMI-1";

/// Names and values.
pub(super) type Words<'a> = Vec<(&'a str, &'a str)>;

/// A reply, split into its words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply<'a> {
    cmd: &'a str,
    words: Words<'a>,
}

impl<'a> Reply<'a> {
    /// Split a line (without its newline).
    pub fn parse(line: &'a str) -> Result<Reply<'a>, JobError> {
        // A message for people may contain spaces.
        let (cmd, words) = words(SPEAKS, line, ' ', "msg")?;
        Ok(Reply { cmd, words })
    }

    pub fn word(&self, name: &str) -> Option<&'a str> {
        self.words.iter().find(|w| w.0 == name).map(|w| w.1)
    }

    pub fn cmd(&self) -> &'a str {
        self.cmd
    }

    pub fn number(&self, name: &str) -> Result<i64, JobError> {
        let text = self.word(name).unwrap_or("");
        text.parse()
            .map_err(|_| broken!(SPEAKS, "'{name}={text}' in reply '{}' is not a number", self.cmd))
    }
}

/// What a reply says: its command, and `name=value` words between separators, of which the first is the command. What comes
/// behind the word `message` may be anything.
pub(super) fn words<'a>(
    speaks: &'static str,
    text: &'a str,
    separator: char,
    message: &str,
) -> Result<(&'a str, Words<'a>), JobError> {
    let bad = |why: &str| broken!(speaks, "sent '{}': {why}", clip(text));
    let mut words = Words::new();
    for word in text.split(separator).filter(|w| !w.is_empty()) {
        match word.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                if words.iter().any(|w| w.0 == name) {
                    return Err(bad(&format!("'{name}' appears twice")));
                }
                words.push((name, value));
            }
            _ if words.last().is_some_and(|w| w.0 == message) => {}
            _ => return Err(bad("a word is not 'name=value'")),
        }
    }
    match words.first() {
        Some(("cmd", cmd)) if !cmd.is_empty() => Ok((cmd, words)),
        _ => Err(bad("it does not begin with 'cmd='")),
    }
}

/// The connection to a PMI-1 server.
pub(crate) struct Pmi1 {
    wire: Wire,
    kvsname: String,
    key_max: usize,
    value_max: usize,
}

/// Join as rank `rank` of `size` over `wire`.
pub(crate) fn join(wire: Wire, rank: u32, size: u32) -> Result<Launched, JobError> {
    let mut pmi = Pmi1::init(wire)?;
    let appnum = pmi.appnum()?;
    let hosts = match pmi.get_text("PMI_process_mapping")? {
        Some(text) => HostMap::parse(&text, size).map_err(|why| broken(SPEAKS, why))?,
        None => None,
    };
    Ok(Launched {
        rank,
        size,
        appnum,
        universe: size,
        hosts,
        channel: Box::new(pmi),
    })
}

impl Pmi1 {
    /// Introduce ourselves and learn the server's limits.
    fn init(mut wire: Wire) -> Result<Pmi1, JobError> {
        wire.speaks = SPEAKS;
        let mut pmi = Pmi1 {
            wire,
            kvsname: String::new(),
            key_max: 0,
            value_max: 0,
        };
        let line = pmi.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let reply = Reply::parse(&line)?;
        let (version, rc) = (reply.number("pmi_version")?, reply.number("rc")?);
        if version != 1 || rc != 0 {
            return Err(broken!(
                SPEAKS,
                "refused PMI version 1.1: pmi_version={version} rc={rc}"
            ));
        }
        let line = pmi.ask("cmd=get_maxes", "maxes")?;
        let reply = Reply::parse(&line)?;
        let limit = |name| match reply.number(name)? {
            n @ 32..=1_000_000 => Ok(n as usize),
            n => Err(broken!(
                SPEAKS,
                "limit '{name}={n}' is not usable; 32 to 1000000 are"
            )),
        };
        (pmi.key_max, pmi.value_max) = (limit("keylen_max")?, limit("vallen_max")?);
        let line = pmi.ask("cmd=get_my_kvsname", "my_kvsname")?;
        match Reply::parse(&line)?.word("kvsname") {
            Some(name) if !name.is_empty() => pmi.kvsname = name.to_owned(),
            _ => {
                return Err(broken!(
                    SPEAKS,
                    "gave no name for the key-value space: '{}'",
                    clip(&line)
                ));
            }
        }
        Ok(pmi)
    }

    /// Send a command and receive its reply, which must be a `wanted`.
    fn ask(&mut self, command: &str, wanted: &str) -> Result<String, JobError> {
        debug_assert!(!command.contains('\n'));
        let word = command.split(' ').next().unwrap_or(command);
        let step = match word {
            "cmd=barrier_in" => self.wire.fence_step(),
            _ => self.wire.step(word),
        };
        self.wire.send(format!("{command}\n").as_bytes(), &step)?;
        let line = self.wire.line(&step)?;
        let reply = Reply::parse(&line)?;
        if reply.cmd != wanted {
            return Err(broken!(SPEAKS, "answered {word} with '{}'", clip(&line)));
        }
        Ok(line)
    }

    /// Which application of an MPMD job this process runs.
    fn appnum(&mut self) -> Result<u32, JobError> {
        let line = self.ask("cmd=get_appnum", "appnum")?;
        Ok(u32::try_from(Reply::parse(&line)?.number("appnum")?).unwrap_or(0))
    }
}

impl Texts for Pmi1 {
    fn speaks(&self) -> &'static str {
        SPEAKS
    }

    fn limits(&self) -> (usize, usize) {
        (self.key_max, self.value_max)
    }

    fn put_text(&mut self, key: &str, value: &str) -> Result<(), JobError> {
        let clean = |s: &str| !s.is_empty() && s.chars().all(|c| c.is_ascii_graphic() && c != '=');
        if !clean(key) || !clean(value) || key.len() >= self.key_max || value.len() >= self.value_max {
            return Err(broken!(SPEAKS, "cannot carry '{}={}'", clip(key), clip(value)));
        }
        let line = self.ask(
            &format!("cmd=put kvsname={} key={key} value={value}", self.kvsname),
            "put_result",
        )?;
        match Reply::parse(&line)?.number("rc")? {
            0 => Ok(()),
            rc => Err(broken!(SPEAKS, "did not accept key {key}: rc={rc}")),
        }
    }

    fn get_text(&mut self, key: &str) -> Result<Option<String>, JobError> {
        let line = self.ask(
            &format!("cmd=get kvsname={} key={key}", self.kvsname),
            "get_result",
        )?;
        let reply = Reply::parse(&line)?;
        match (reply.number("rc")?, reply.word("value")) {
            (0, Some(value)) => Ok(Some(value.to_owned())),
            (0, None) => Err(broken!(SPEAKS, "answered without a value for key {key}")),
            _ => Ok(None),
        }
    }

    fn barrier(&mut self) -> Result<(), JobError> {
        let line = self.ask("cmd=barrier_in", "barrier_out")?;
        match Reply::parse(&line)?.word("rc") {
            None | Some("0") => Ok(()),
            Some(rc) => Err(broken!(SPEAKS, "failed to make all ranks meet: rc={rc}")),
        }
    }

    fn finalize(&mut self) -> Result<(), JobError> {
        self.ask("cmd=finalize", "finalize_ack").map(|_| ())
    }

    fn abort(&mut self, status: i32, _message: &str) -> Result<(), JobError> {
        let step = self.wire.step("cmd=abort");
        self.wire
            .send(format!("cmd=abort exitcode={status}\n").as_bytes(), &step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs::File;
    use std::io::{BufRead, BufReader, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    fn wire(stream: UnixStream) -> Wire {
        Wire::new(File::from(OwnedFd::from(stream)), Duration::from_secs(20), SPEAKS)
    }

    /// A server that answers each line as the table says.
    fn server(answers: Vec<(&'static str, &'static str)>) -> (Wire, std::thread::JoinHandle<()>) {
        server_that(answers, true)
    }

    /// As `server`, but it may wait for the end of the connection instead of hanging up.
    fn server_that(
        answers: Vec<(&'static str, &'static str)>,
        hangs_up: bool,
    ) -> (Wire, std::thread::JoinHandle<()>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let handle = std::thread::spawn(move || {
            let mut lines = BufReader::new(theirs.try_clone().unwrap()).lines();
            for (expected, answer) in answers {
                assert_eq!(lines.next().unwrap().unwrap(), expected);
                (&theirs).write_all(answer.as_bytes()).unwrap();
            }
            if !hangs_up {
                assert!(lines.next().is_none());
            }
        });
        (wire(ours), handle)
    }

    const HELLO: [(&str, &str); 3] = [
        (
            "cmd=init pmi_version=1 pmi_subversion=1",
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
        ),
        (
            "cmd=get_maxes",
            "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n",
        ),
        ("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_1\n"),
    ];

    #[test]
    fn a_conversation() {
        let mut talk = HELLO.to_vec();
        talk.extend([
            (
                "cmd=put kvsname=kvs_1 key=a value=b",
                "cmd=put_result rc=0 msg=success\n",
            ),
            ("cmd=barrier_in", "cmd=barrier_out rc=0\n"),
            (
                "cmd=get kvsname=kvs_1 key=a",
                "cmd=get_result rc=0 msg=success value=b\n",
            ),
            (
                "cmd=get kvsname=kvs_1 key=c",
                "cmd=get_result rc=-1 msg=not found value=unknown\n",
            ),
            ("cmd=get_appnum", "cmd=appnum appnum=3\n"),
            ("cmd=finalize", "cmd=finalize_ack\n"),
        ]);
        let (stream, handle) = server(talk);
        let mut pmi = Pmi1::init(stream).unwrap();
        pmi.put_text("a", "b").unwrap();
        assert!(pmi.put_text("a b", "c").is_err() && pmi.put_text(&"k".repeat(64), "c").is_err());
        pmi.barrier().unwrap();
        assert_eq!(pmi.get_text("a").unwrap().unwrap(), "b");
        assert_eq!(pmi.get_text("c").unwrap(), None);
        assert_eq!(pmi.appnum().unwrap(), 3);
        Texts::finalize(&mut pmi).unwrap();
        handle.join().unwrap();
    }

    #[test]
    fn malformed_replies_of_a_server_are_reported() {
        for answer in [
            "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n",
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n",
            "cmd=maxes\n",
            "hello\n",
            "\n",
            "=\n",
            "cmd=response_to_init rc=0 rc=0\n",
        ] {
            let (stream, handle) = server(vec![(HELLO[0].0, answer)]);
            assert!(Pmi1::init(stream).is_err(), "{answer}");
            handle.join().unwrap();
        }
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let flood = std::thread::spawn(move || while theirs.write_all(&[b'x'; 512]).is_ok() {});
        let error = Pmi1::init(wire(ours)).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("more than 8192 bytes"), "{error}");
        flood.join().unwrap();
    }

    #[test]
    fn silence_and_hanging_up_are_reported() {
        for at in 0..HELLO.len() {
            // A line that is cut off, by an end of the connection or by nothing coming any more.
            for hangs_up in [true, false] {
                let mut talk = HELLO.to_vec();
                talk.truncate(at + 1);
                talk[at].1 = "cmd=respo";
                let (mut wire, handle) = server_that(talk, hangs_up);
                if !hangs_up {
                    wire = wire.with_limit(Duration::from_millis(500));
                }
                let text = Pmi1::init(wire).map(|_| ()).unwrap_err().to_string();
                let why = if hangs_up {
                    "closed the connection"
                } else {
                    "since "
                };
                assert!(text.contains(why) && text.contains("PMI-1"), "{text}");
                handle.join().unwrap();
            }
        }
    }

    #[test]
    fn a_launcher_that_has_ended_is_an_error_and_no_signal() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        // While it is blocked a SIGPIPE of this thread stays to be seen, whatever the test's process does about it.
        // SAFETY: the sets are this function's.
        let pending = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGPIPE);
            assert_eq!(
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()),
                0
            );
            let text = Pmi1::init(wire(ours)).map(|_| ()).unwrap_err().to_string();
            assert!(text.contains("sending to the PMI-1 launcher"), "{text}");
            assert_eq!(libc::sigpending(&raw mut set), 0);
            libc::sigismember(&raw const set, libc::SIGPIPE)
        };
        assert_eq!(pending, 0);
    }

    proptest! {
        #[test]
        fn any_line_is_split_or_refused(line in "[ -~]{0,200}") {
            if let Ok(reply) = Reply::parse(&line) {
                prop_assert!(!reply.cmd.is_empty());
                for (name, value) in &reply.words {
                    let word = format!("{name}={value}");
                    prop_assert!(line.contains(&word));
                }
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(&bytes).unwrap();
            theirs.shutdown(std::net::Shutdown::Write).unwrap();
            prop_assert!(Pmi1::init(wire(ours)).is_err());
        }
    }
}
