//! PMI over a TCP connection (`mpiexec.hydra -pmi-port`): the process connects to `PMI_PORT`, says with `PMI_ID` which of
//! the launcher's processes it is, and is told its rank. From there on it is PMI as on an inherited descriptor.
//!
//! The port is the launcher's: who can reach it can say that it is a process of the job, as with any MPI. Where that
//! matters, `FARPOST_SECRET_FILE` keeps the job's secret off this connection.

use super::broken;
use super::pmi1::Reply;
use super::wire::Wire;
use crate::deadline::Step;
use crate::error::JobError;
use crate::error::clip;
use std::fs::File;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Variable: `host:port` of a PMI server.
pub(crate) const PORT: &str = "PMI_PORT";
/// Variable: which process this is, as the server counts them.
pub(crate) const ID: &str = "PMI_ID";

const SPEAKS: &str = "PMI-1";

/// Connect, and learn rank and size, in this order.
pub(crate) fn connect(
    env: &impl Fn(&str) -> Option<String>,
    port: &str,
    limit: Duration,
) -> Result<(Wire, u32, u32), JobError> {
    let refuse = |name, value: &str, allowed: String| JobError::variable(name, value, allowed);
    let number = port.rsplit_once(':').map(|(_, number)| number.parse::<u16>());
    if !matches!(number, Some(Ok(1..))) || port.starts_with(':') {
        return Err(refuse(PORT, port, "must be host:port of a PMI server".into()));
    }
    let Some(id) = env(ID) else {
        let why = format!("is not set, though {PORT} is; both come from the launcher");
        return Err(refuse(ID, "", why));
    };
    if id.is_empty() || id.len() > 10 || !id.bytes().all(|b| b.is_ascii_digit()) {
        return Err(refuse(
            ID,
            &id,
            format!("must be a number, as the launcher that set {PORT} says it"),
        ));
    }
    let cannot = |why: String| refuse(PORT, port, format!("the PMI server cannot be reached: {why}"));
    let step = Step::begin(format!("a connection to the PMI server at {port}"), limit);
    let mut last = "the name has no address".to_owned();
    let mut stream = None;
    for address in port.to_socket_addrs().map_err(|e| cannot(e.to_string()))? {
        match TcpStream::connect_timeout(&address, step.left()?) {
            Ok(connected) => {
                stream = Some(connected);
                break;
            }
            Err(error) => last = format!("{address}: {error}"),
        }
    }
    let stream = stream.ok_or_else(|| cannot(last))?;
    // A line each way at a time: nothing is to be gathered.
    let _ = stream.set_nodelay(true);
    let mut wire = Wire::new(File::from(OwnedFd::from(stream)), limit, SPEAKS);
    let (rank, size) = introduce(&mut wire, &id)?;
    Ok((wire, rank, size))
}

/// The server's answer to who we are, and the three settings that follow.
fn introduce(wire: &mut Wire, id: &str) -> Result<(u32, u32), JobError> {
    let step = wire.step("cmd=initack");
    wire.send(format!("cmd=initack pmiid={id}\n").as_bytes(), &step)?;
    let line = wire.line(&step)?;
    let reply = Reply::parse(&line)?;
    if reply.cmd() != "initack" || reply.word("rc").is_some_and(|rc| rc != "0") {
        return Err(broken!(SPEAKS, "answered cmd=initack with '{}'", clip(&line)));
    }
    let (mut rank, mut size) = (None, None);
    for _ in 0..3 {
        let line = wire.line(&step)?;
        let reply = Reply::parse(&line)?;
        if reply.cmd() != "set" {
            return Err(broken!(
                SPEAKS,
                "sent '{}' where it sets rank and size",
                clip(&line)
            ));
        }
        for (name, to) in [("rank", &mut rank), ("size", &mut size)] {
            if reply.word(name).is_some() {
                *to = u32::try_from(reply.number(name)?).ok();
            }
        }
    }
    match (rank, size) {
        (Some(rank), Some(size)) => Ok((rank, size)),
        _ => Err(broken(SPEAKS, "did not tell rank and size")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    /// A server that answers the first line with `answer`.
    fn asked(answer: &'static str) -> Result<(u32, u32), String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(stream.try_clone().unwrap())
                .read_line(&mut line)
                .unwrap();
            assert_eq!(line, "cmd=initack pmiid=7\n");
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let env = |name: &str| (name == ID).then(|| "7".to_owned());
        let came = connect(&env, &port, Duration::from_secs(20));
        server.join().unwrap();
        came.map(|(_, rank, size)| (rank, size))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn the_server_tells_rank_and_size() {
        let good = "cmd=initack rc=0 rank=3 size=9\ncmd=set size=9\ncmd=set rank=3\ncmd=set debug=0\n";
        assert_eq!(asked(good), Ok((3, 9)));
        assert_eq!(
            asked("cmd=initack\ncmd=set rank=0\ncmd=set debug=1\ncmd=set size=1\n"),
            Ok((0, 1))
        );
        for (bad, words) in [
            ("cmd=initack rc=-1\n", "answered cmd=initack"),
            ("cmd=response_to_init rc=0\n", "answered cmd=initack"),
            (
                "cmd=initack\ncmd=set size=2\ncmd=set debug=0\ncmd=set debug=0\n",
                "rank and size",
            ),
            ("cmd=initack\ncmd=put size=2\n", "where it sets"),
            ("cmd=initack\ncmd=set size=x\n", "not a number"),
            (
                "cmd=initack\ncmd=set size=-2\ncmd=set rank=0\ncmd=set debug=0\n",
                "rank and size",
            ),
            ("cmd=initack\n", "closed the connection"),
            ("hello\n", "PMI-1"),
        ] {
            let error = asked(bad).unwrap_err();
            assert!(error.contains(words), "{bad:?}: {error}");
        }
    }

    #[test]
    fn variables_that_cannot_be_are_named() {
        let limit = Duration::from_secs(20);
        let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for (port, id, words) in [
            ("malformed", Some("0"), "PMI_PORT=malformed: must be host:port"),
            (":80", Some("0"), "PMI_PORT=:80"),
            ("h:0", Some("0"), "PMI_PORT=h:0"),
            ("h:99999", Some("0"), "PMI_PORT=h:99999"),
            ("127.0.0.1:9", None, "PMI_ID=: is not set"),
            ("127.0.0.1:9", Some("x"), "PMI_ID=x: must be a number"),
            ("127.0.0.1:9", Some("1 cmd=abort"), "PMI_ID=1 cmd=abort"),
            (&unused.to_string(), Some("0"), "cannot be reached: 127.0.0.1:"),
        ] {
            let env = |name: &str| id.filter(|_| name == ID).map(str::to_owned);
            let error = connect(&env, port, limit).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(words), "{port} {id:?}: {error}");
        }
    }
}
