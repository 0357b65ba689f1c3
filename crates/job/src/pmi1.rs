//! PMI-1: the line protocol that Hydra and others serve on an inherited descriptor. Commands and replies are
//! lines of `name=value` words, the first of which is `cmd=`. What a server sends is input: lines are bounded,
//! words are checked, and a reply to something else is an error.

use crate::JobError;
use std::fs::File;
use std::io::{Read, Write};

/// Longest line accepted, its newline included.
pub const LINE_MAX: usize = 8192;

/// A reply, split into its words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply<'a> {
    cmd: &'a str,
    words: Vec<(&'a str, &'a str)>,
}

fn shown(line: &str) -> String {
    let short: String = line
        .chars()
        .take(80)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    if short.len() < line.len() {
        format!("'{short}...'")
    } else {
        format!("'{short}'")
    }
}

impl<'a> Reply<'a> {
    /// Split a line (without its newline).
    pub fn parse(line: &'a str) -> Result<Reply<'a>, JobError> {
        let bad = |why: &str| JobError::Pmi(format!("sent {}: {why}", shown(line)));
        let mut words: Vec<(&str, &str)> = Vec::new();
        for word in line.split(' ').filter(|w| !w.is_empty()) {
            match word.split_once('=') {
                Some((name, value)) if !name.is_empty() => {
                    if words.iter().any(|w| w.0 == name) {
                        return Err(bad(&format!("'{name}' appears twice")));
                    }
                    words.push((name, value));
                }
                // A message for people may contain spaces.
                _ if words.last().is_some_and(|w| w.0 == "msg") => {}
                _ => return Err(bad("a word is not 'name=value'")),
            }
        }
        match words.first() {
            Some(("cmd", cmd)) if !cmd.is_empty() => Ok(Reply { cmd, words }),
            _ => Err(bad("it does not begin with 'cmd='")),
        }
    }

    fn word(&self, name: &str) -> Option<&'a str> {
        self.words.iter().find(|w| w.0 == name).map(|w| w.1)
    }

    fn number(&self, name: &str) -> Result<i64, JobError> {
        let text = self.word(name).unwrap_or("");
        text.parse()
            .map_err(|_| JobError::Pmi(format!("'{name}={text}' in reply '{}' is not a number", self.cmd)))
    }
}

/// The connection to a PMI-1 server.
pub(crate) struct Pmi1 {
    stream: File,
    buffer: Vec<u8>,
    kvsname: String,
    key_max: usize,
    value_max: usize,
}

impl Pmi1 {
    /// Introduce ourselves on `stream` and learn the server's limits.
    pub fn init(stream: File) -> Result<Pmi1, JobError> {
        let mut pmi = Pmi1 {
            stream,
            buffer: Vec::new(),
            kvsname: String::new(),
            key_max: 0,
            value_max: 0,
        };
        let line = pmi.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let reply = Reply::parse(&line)?;
        let (version, rc) = (reply.number("pmi_version")?, reply.number("rc")?);
        if version != 1 || rc != 0 {
            return Err(JobError::Pmi(format!(
                "refused PMI version 1.1: pmi_version={version} rc={rc}"
            )));
        }
        let line = pmi.ask("cmd=get_maxes", "maxes")?;
        let reply = Reply::parse(&line)?;
        let limit = |name| match reply.number(name)? {
            n @ 16..=1_000_000 => Ok(n as usize),
            n => Err(JobError::Pmi(format!(
                "limit '{name}={n}' is not usable; 16 to 1000000 are"
            ))),
        };
        (pmi.key_max, pmi.value_max) = (limit("keylen_max")?, limit("vallen_max")?);
        let line = pmi.ask("cmd=get_my_kvsname", "my_kvsname")?;
        match Reply::parse(&line)?.word("kvsname") {
            Some(name) if !name.is_empty() => pmi.kvsname = name.to_owned(),
            _ => {
                return Err(JobError::Pmi(format!(
                    "gave no name for the key-value space: {}",
                    shown(&line)
                )));
            }
        }
        Ok(pmi)
    }

    fn send(&mut self, line: &str) -> Result<(), JobError> {
        debug_assert!(!line.contains('\n'));
        self.stream
            .write_all(format!("{line}\n").as_bytes())
            .map_err(|e| JobError::System {
                what: format!("sending {} to the PMI-1 launcher", shown(line)),
                source: e,
            })
    }

    /// The next line without its newline.
    fn receive(&mut self) -> Result<String, JobError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return String::from_utf8(line[..end].to_vec())
                    .map_err(|_| JobError::Pmi("sent a line that is not text".into()));
            }
            if self.buffer.len() >= LINE_MAX {
                return Err(JobError::Pmi(format!(
                    "sent a line of more than {LINE_MAX} bytes"
                )));
            }
            let mut chunk = [0; 1024];
            let room = (LINE_MAX - self.buffer.len()).min(chunk.len());
            match self.stream.read(&mut chunk[..room]) {
                Ok(0) => return Err(JobError::Pmi("closed the connection".into())),
                Ok(n) => self.buffer.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => {
                    return Err(JobError::System {
                        what: "reading from the PMI-1 launcher".into(),
                        source: e,
                    });
                }
            }
        }
    }

    /// Send a command and receive its reply, which must be a `wanted`.
    fn ask(&mut self, command: &str, wanted: &str) -> Result<String, JobError> {
        self.send(command)?;
        let line = self.receive()?;
        let reply = Reply::parse(&line)?;
        if reply.cmd != wanted {
            return Err(JobError::Pmi(format!(
                "answered {} with {}",
                shown(command),
                shown(&line)
            )));
        }
        Ok(line)
    }

    /// Which application of an MPMD job this process runs.
    pub fn appnum(&mut self) -> Result<u32, JobError> {
        let line = self.ask("cmd=get_appnum", "appnum")?;
        Ok(u32::try_from(Reply::parse(&line)?.number("appnum")?).unwrap_or(0))
    }

    pub fn put(&mut self, key: &str, value: &str) -> Result<(), JobError> {
        let clean = |s: &str| !s.is_empty() && s.chars().all(|c| c.is_ascii_graphic() && c != '=');
        if !clean(key) || !clean(value) || key.len() >= self.key_max || value.len() >= self.value_max {
            return Err(JobError::Pmi(format!(
                "cannot carry {}={}",
                shown(key),
                shown(value)
            )));
        }
        let line = self.ask(
            &format!("cmd=put kvsname={} key={key} value={value}", self.kvsname),
            "put_result",
        )?;
        match Reply::parse(&line)?.number("rc")? {
            0 => Ok(()),
            rc => Err(JobError::Pmi(format!("did not accept key {key}: rc={rc}"))),
        }
    }

    pub fn get(&mut self, key: &str) -> Result<String, JobError> {
        let line = self.ask(
            &format!("cmd=get kvsname={} key={key}", self.kvsname),
            "get_result",
        )?;
        let reply = Reply::parse(&line)?;
        match (reply.number("rc")?, reply.word("value")) {
            (0, Some(value)) => Ok(value.to_owned()),
            (rc, _) => Err(JobError::Pmi(format!("has no value for key {key}: rc={rc}"))),
        }
    }

    pub fn barrier(&mut self) -> Result<(), JobError> {
        self.ask("cmd=barrier_in", "barrier_out").map(|_| ())
    }

    pub fn finalize(&mut self) -> Result<(), JobError> {
        self.ask("cmd=finalize", "finalize_ack").map(|_| ())
    }

    /// Ask the launcher to end the job. It answers by doing so.
    pub fn abort(&mut self, code: i32) -> Result<(), JobError> {
        self.send(&format!("cmd=abort exitcode={code}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{BufRead, BufReader};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    /// A server that answers each line as the table says.
    fn server(answers: Vec<(&'static str, &'static str)>) -> (File, std::thread::JoinHandle<()>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let handle = std::thread::spawn(move || {
            let mut lines = BufReader::new(theirs.try_clone().unwrap()).lines();
            for (expected, answer) in answers {
                assert_eq!(lines.next().unwrap().unwrap(), expected);
                (&theirs).write_all(answer.as_bytes()).unwrap();
            }
        });
        (File::from(OwnedFd::from(ours)), handle)
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
        pmi.put("a", "b").unwrap();
        assert!(pmi.put("a b", "c").is_err() && pmi.put(&"k".repeat(64), "c").is_err());
        pmi.barrier().unwrap();
        assert_eq!(pmi.get("a").unwrap(), "b");
        assert!(pmi.get("c").unwrap_err().to_string().contains("rc=-1"));
        assert_eq!(pmi.appnum().unwrap(), 3);
        pmi.finalize().unwrap();
        handle.join().unwrap();
    }

    #[test]
    fn a_server_that_talks_nonsense_is_reported() {
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
        let error = Pmi1::init(File::from(OwnedFd::from(ours)))
            .map(|_| ())
            .unwrap_err();
        assert!(error.to_string().contains("more than 8192 bytes"), "{error}");
        flood.join().unwrap();
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
            prop_assert!(Pmi1::init(File::from(OwnedFd::from(ours))).is_err());
        }
    }
}
