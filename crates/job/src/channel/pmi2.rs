//! PMI-2: frames that Slurm, Hydra and others serve on an inherited descriptor. After a first line in PMI-1's form, which
//! agrees on the version, a command or a reply is six characters of length, blank-padded, and as many bytes of
//! `name=value;` words, the first of which is `cmd=`. What a server sends is input: frames are bounded, words are
//! checked, and a reply to something else is an error.

use super::pmi1::{Reply as Line, Words, words};
use super::text::Texts;
use super::wire::{LINE_MAX, Wire};
use super::{Launched, broken};
use crate::deadline::Step;
use crate::error::JobError;
use crate::error::clip;
use crate::hosts::HostMap;

const SPEAKS: &str = "PMI-2";
/// Longest key and value, in bytes, their ends included: what all servers take.
const KEY_MAX: usize = 64;
const VALUE_MAX: usize = 1024;

/// A reply, split into its words.
#[derive(Debug, PartialEq, Eq)]
struct Reply<'a> {
    cmd: &'a str,
    words: Words<'a>,
}

impl<'a> Reply<'a> {
    fn parse(frame: &'a str) -> Result<Reply<'a>, JobError> {
        // A message for people may contain anything.
        let (cmd, words) = words(SPEAKS, frame, ';', "errmsg")?;
        Ok(Reply { cmd, words })
    }

    fn word(&self, name: &str) -> Option<&'a str> {
        self.words.iter().find(|w| w.0 == name).map(|w| w.1)
    }

    fn number(&self, name: &str) -> Result<i64, JobError> {
        let text = self.word(name).unwrap_or("");
        text.trim().parse().map_err(|_| {
            broken!(
                SPEAKS,
                "'{name}={}' in reply '{}' is not a number",
                clip(text),
                clip(self.cmd)
            )
        })
    }

    /// The value of a reply that may have found none.
    fn found(&self) -> Result<Option<String>, JobError> {
        match (self.word("found"), self.word("value")) {
            (Some("TRUE"), Some(value)) => Ok(Some(value.to_owned())),
            (Some("FALSE"), _) => Ok(None),
            _ => Err(broken!(
                SPEAKS,
                "reply '{}' says neither a value nor that there is none",
                clip(self.cmd)
            )),
        }
    }
}

/// The connection to a PMI-2 server.
struct Pmi2 {
    wire: Wire,
}

/// Join as rank `rank` of `size` over `wire`. `jobid` is what the launcher calls the job, where it says so.
pub(crate) fn join(mut wire: Wire, rank: u32, size: u32, jobid: Option<&str>) -> Result<Launched, JobError> {
    wire.speaks = SPEAKS;
    let step = wire.step("cmd=init");
    wire.send(b"cmd=init pmi_version=2 pmi_subversion=0\n", &step)?;
    let line = wire.line(&step)?;
    let reply = Line::parse(&line)?;
    let numbers = (reply.number("pmi_version")?, reply.number("rc")?);
    if reply.cmd() != "response_to_init" || numbers != (2, 0) {
        return Err(broken!(
            SPEAKS,
            "refused PMI version 2.0: it answered '{}'",
            clip(&line)
        ));
    }
    let mut pmi = Pmi2 { wire };
    let jobid = match jobid {
        Some(id) if plain(id) => format!("pmijobid={id};"),
        _ => String::new(),
    };
    let frame = pmi.ask("fullinit", &format!("{jobid}pmirank={rank};threaded=FALSE;"))?;
    let reply = Reply::parse(&frame)?;
    let place = (reply.number("rank")?, reply.number("size")?);
    if place != (rank.into(), size.into()) {
        return Err(broken!(
            SPEAKS,
            "says rank {} of {}, PMI_RANK and PMI_SIZE say {rank} of {size}",
            place.0,
            place.1
        ));
    }
    let appnum = reply
        .number("appnum")
        .ok()
        .and_then(|n| u32::try_from(n).ok())
        .unwrap_or(0);
    let hosts = match pmi.attribute("PMI_process_mapping")? {
        Some(text) => HostMap::parse(&text, size).map_err(|why| broken(SPEAKS, why))?,
        None => None,
    };
    let universe = pmi
        .attribute("universeSize")?
        .and_then(|text| text.trim().parse().ok());
    Ok(Launched {
        rank,
        size,
        appnum,
        universe: universe.unwrap_or(size).max(size),
        hosts,
        channel: Box::new(pmi),
    })
}

fn plain(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_graphic() && !matches!(b, b'=' | b';'))
}

impl Pmi2 {
    fn send(&mut self, command: &str, words: &str, step: &Step) -> Result<(), JobError> {
        let body = format!("cmd={command};{words}");
        debug_assert!(body.len() <= LINE_MAX);
        self.wire
            .send(format!("{:<6}{body}", body.len()).as_bytes(), step)
    }

    /// Send a command and receive its reply, which says that it went well.
    fn ask(&mut self, command: &str, words: &str) -> Result<String, JobError> {
        let step = match command {
            "kvs-fence" => self.wire.fence_step(),
            _ => self.wire.step(command),
        };
        self.send(command, words, &step)?;
        let length = self.wire.exactly(6, &step)?;
        let len = match length.trim().parse() {
            Ok(len @ 1..=LINE_MAX) => len,
            _ => {
                return Err(broken!(
                    SPEAKS,
                    "answered {command} with a length of '{}'; 1 to {LINE_MAX} are accepted",
                    clip(&length)
                ));
            }
        };
        let frame = self.wire.exactly(len, &step)?;
        let reply = Reply::parse(&frame)?;
        if reply.cmd.strip_suffix("-response") != Some(command) {
            return Err(broken!(SPEAKS, "answered {command} with '{}'", clip(&frame)));
        }
        match reply.number("rc")? {
            0 => Ok(frame),
            rc => Err(broken!(
                SPEAKS,
                "refused {command}: rc={rc} {}",
                clip(reply.word("errmsg").unwrap_or(""))
            )),
        }
    }

    fn attribute(&mut self, key: &str) -> Result<Option<String>, JobError> {
        let frame = self.ask("info-getjobattr", &format!("key={key};"))?;
        Reply::parse(&frame)?.found()
    }
}

impl Texts for Pmi2 {
    fn speaks(&self) -> &'static str {
        SPEAKS
    }

    fn limits(&self) -> (usize, usize) {
        (KEY_MAX, VALUE_MAX)
    }

    fn put_text(&mut self, key: &str, value: &str) -> Result<(), JobError> {
        if !plain(key) || !plain(value) || key.len() >= KEY_MAX || value.len() >= VALUE_MAX {
            return Err(broken!(SPEAKS, "cannot carry '{}={}'", clip(key), clip(value)));
        }
        self.ask("kvs-put", &format!("key={key};value={value};"))
            .map(|_| ())
    }

    fn get_text(&mut self, key: &str) -> Result<Option<String>, JobError> {
        let frame = self.ask("kvs-get", &format!("key={key};"))?;
        Reply::parse(&frame)?.found()
    }

    fn barrier(&mut self) -> Result<(), JobError> {
        self.ask("kvs-fence", "").map(|_| ())
    }

    fn finalize(&mut self) -> Result<(), JobError> {
        self.ask("finalize", "").map(|_| ())
    }

    fn abort(&mut self, status: i32, message: &str) -> Result<(), JobError> {
        let message: String = message
            .chars()
            .take(200)
            .map(|c| {
                if c.is_ascii_graphic() && !matches!(c, '=' | ';') {
                    c
                } else {
                    ' '
                }
            })
            .collect();
        let step = self.wire.step("abort");
        self.send(
            "abort",
            &format!("isworld=TRUE;exitcode={status};msg={message};"),
            &step,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    fn wire(stream: UnixStream) -> Wire {
        Wire::new(File::from(OwnedFd::from(stream)), Duration::from_secs(20), SPEAKS)
    }

    /// A server that answers each command as the table says; `None`: it waits for the end of the connection.
    fn server(answers: Vec<(&'static str, Option<String>)>) -> (Wire, std::thread::JoinHandle<()>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let handle = std::thread::spawn(move || {
            for (expected, answer) in answers {
                let expected = if expected.ends_with('\n') {
                    expected.to_owned()
                } else {
                    frame(expected).unwrap()
                };
                let mut got = vec![0; expected.len()];
                theirs.read_exact(&mut got).unwrap();
                assert_eq!(String::from_utf8(got).unwrap(), expected);
                match answer {
                    Some(answer) => theirs.write_all(answer.as_bytes()).unwrap(),
                    None => assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0),
                }
            }
        });
        (wire(ours), handle)
    }

    fn frame(body: &str) -> Option<String> {
        Some(format!("{:<6}{body}", body.len()))
    }

    fn hello() -> Vec<(&'static str, Option<String>)> {
        vec![
            (
                "cmd=init pmi_version=2 pmi_subversion=0\n",
                Some("cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n".into()),
            ),
            (
                "cmd=fullinit;pmijobid=7.0;pmirank=1;threaded=FALSE;",
                frame(
                    "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=3;appnum=-1;debugged=FALSE;pmiverbose=FALSE;",
                ),
            ),
            (
                "cmd=info-getjobattr;key=PMI_process_mapping;",
                frame("cmd=info-getjobattr-response;rc=0;found=TRUE;value=(vector,(0,2,2));"),
            ),
            (
                "cmd=info-getjobattr;key=universeSize;",
                frame("cmd=info-getjobattr-response;rc=0;found=TRUE;value=8;"),
            ),
        ]
    }

    #[test]
    fn a_conversation() {
        let mut talk = hello();
        talk.extend([
            (
                "cmd=kvs-put;key=fp-1-k;value=8:AQIDBAUG;",
                frame("cmd=kvs-put-response;rc=0;"),
            ),
            ("cmd=kvs-fence;", frame("cmd=kvs-fence-response;rc=0;")),
            (
                "cmd=kvs-get;key=fp-0-k;",
                frame("cmd=kvs-get-response;rc=0;found=TRUE;value=8:AQIDBAUG;"),
            ),
            (
                "cmd=kvs-get;key=fp-2-k;",
                frame("cmd=kvs-get-response;rc=0;found=FALSE;"),
            ),
            ("cmd=finalize;", frame("cmd=finalize-response;rc=0;")),
        ]);
        let (wire, handle) = server(talk);
        let launched = join(wire, 1, 3, Some("7.0")).unwrap();
        assert_eq!((launched.appnum, launched.universe), (0, 8));
        assert_eq!(launched.hosts.unwrap().host_of(), [0, 0, 1]);
        let mut channel = launched.channel;
        channel.put(1, "k", &[1, 2, 3, 4, 5, 6]).unwrap();
        channel.fence().unwrap();
        assert_eq!(channel.get(0, "k").unwrap(), Some(vec![1, 2, 3, 4, 5, 6]));
        assert_eq!(channel.get(2, "k").unwrap(), None);
        channel.finalize().unwrap();
        handle.join().unwrap();
    }

    #[test]
    fn malformed_replies_of_a_server_are_reported() {
        for (at, answer, why) in [
            (
                0,
                "cmd=response_to_init rc=1 pmi_version=1 pmi_subversion=1\n",
                "refused PMI version 2.0",
            ),
            (0, "cmd=maxes rc=0 pmi_version=2\n", "refused PMI version 2.0"),
            (0, "no\n", "no"),
            (1, "abcdefg", "abcdef"),
            (1, "-1    x", "-1"),
            (1, "0     x", "length of '0"),
            (1, "99999 x", "99999"),
            (1, "3     abc", "abc"),
            (1, "+cmd=fullinit-response;rc=0;junk", "name=value"),
            (1, "+cmd=fullinit-response;rc=0;rc=0;", "twice"),
            (1, "+cmd=fullinit-response;rc=0;rank=2;size=3", "says rank 2 of 3"),
            (1, "+cmd=fullinit-response;rc=0;rank=1;size=4", "says rank 1 of 4"),
            (1, "+cmd=fullinit-response;rc=0;rank=x;size=4", "rank=x"),
            (1, "+cmd=fullinit-response;rc=3;errmsg=too bad;", "too bad"),
            (1, "+cmd=kvs-put-response;rc=0;x=1;;", "answered fullinit with"),
            (2, "+cmd=info-getjobattr-response;rc=0;x=;", "neither a value"),
            (
                2,
                "+cmd=info-getjobattr-response;rc=0;found=TRUE;value=(vec,0);",
                "process mapping",
            ),
        ] {
            let mut talk = hello();
            talk.truncate(at + 1);
            talk[at].1 = match answer.strip_prefix('+') {
                Some(body) => frame(body),
                None => Some(answer.into()),
            };
            let (wire, handle) = server(talk);
            let text = join(wire, 1, 3, Some("7.0")).map(|_| ()).unwrap_err().to_string();
            assert!(text.contains(why) && text.contains("PMI-"), "{answer}: {text}");
            handle.join().unwrap();
        }
    }

    #[test]
    fn silence_and_hanging_up_are_reported() {
        for at in 0..3 {
            let mut talk = hello();
            talk.truncate(at + 1);
            talk[at].1 = Some("12".into());
            let (wire, handle) = server(talk);
            let text = join(wire, 1, 3, Some("7.0")).map(|_| ()).unwrap_err().to_string();
            assert!(text.contains("closed the connection"), "{text}");
            handle.join().unwrap();
            let mut talk = hello();
            talk.truncate(at + 1);
            talk[at].1 = None;
            let (ours, handle) = server(talk);
            let text = join(ours.with_limit(Duration::from_millis(50)), 1, 3, Some("7.0"))
                .map(|_| ())
                .unwrap_err()
                .to_string();
            assert!(
                text.contains("since ") && text.contains("PMI-2 launcher's answer"),
                "{text}"
            );
            handle.join().unwrap();
        }
    }

    proptest! {
        #[test]
        fn any_frame_is_split_or_refused(body in "[ -~]{0,200}") {
            if let Ok(reply) = Reply::parse(&body) {
                prop_assert!(!reply.cmd.is_empty());
                for (name, value) in &reply.words {
                    let word = format!("{name}={value}");
                    prop_assert!(body.contains(&word));
                }
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(b"cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n").unwrap();
            theirs.write_all(&bytes).unwrap();
            theirs.shutdown(std::net::Shutdown::Write).unwrap();
            prop_assert!(join(wire(ours), 0, 1, None).is_err());
        }
    }
}
