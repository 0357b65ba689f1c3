//! The job's secret: 32 random bytes that all its processes have and nobody else, for proving to each other that
//! they belong together. It travels through the launcher's own channel or a file only its user can read; never on a
//! command line, never in the environment.

use crate::error::JobError;
use crate::peer_fd;
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

/// Variable: an inherited descriptor (a memory file or a pipe would do) from whose beginning the secret is read.
pub const SECRET_FD: &str = "FARPOST_SECRET_FD";
/// Variable: a file of mode 0600 that holds the secret.
pub const SECRET_FILE: &str = "FARPOST_SECRET_FILE";

/// The job's secret.
pub type Secret = [u8; 32];

/// Draw random bytes, at most 256: so many come whole or not at all.
pub(crate) fn draw<const N: usize>(what: &str) -> Result<[u8; N], JobError> {
    const { assert!(N <= 256) };
    let mut bytes = [0; N];
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(JobError::of(format!("drawing the job's {what}")))?;
    Ok(bytes)
}

/// What may be told of a secret to find out whether two processes have the same one: it does not lead back to the secret,
/// which is 256 random bits. 32 hexadecimal digits.
pub(crate) fn fingerprint(secret: &Secret) -> String {
    let mut all = ring::digest::Context::new(&ring::digest::SHA256);
    all.update(b"farpost fingerprint of a job's secret");
    all.update(secret);
    let digest = all.finish();
    digest.as_ref()[..16].iter().map(|b| format!("{b:02x}")).collect()
}

/// The secret that the launcher left where a variable says, if one does.
pub(crate) fn given(env: &impl Fn(&str) -> Option<String>) -> Result<Option<Secret>, JobError> {
    let refuse = |name, value: &str, allowed: String| JobError::variable(name, value, allowed);
    if let Some(text) = env(SECRET_FD) {
        let raw: i32 = text
            .parse()
            .map_err(|_| refuse(SECRET_FD, &text, "must be the number of a descriptor".into()))?;
        let file = peer_fd::inherited(raw, 3)
            .ok_or_else(|| refuse(SECRET_FD, &text, "no such descriptor is open".into()))?;
        let mut bytes = [0u8; 65];
        // Not read(): the position in the file belongs to all who inherited it.
        let got = File::from(file).read_at(&mut bytes, 0).unwrap_or(0);
        return parse(&bytes[..got])
            .map(Some)
            .ok_or_else(|| refuse(SECRET_FD, &text, HOLDS.into()));
    }
    let Some(path) = env(SECRET_FILE) else {
        return Ok(None);
    };
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(&path)
        .map_err(|e| refuse(SECRET_FILE, &path, format!("cannot be opened: {e}")))?;
    let about = file
        .metadata()
        .map_err(|e| refuse(SECRET_FILE, &path, format!("cannot be looked at: {e}")))?;
    let uid = geteuid().as_raw();
    if !about.is_file() || about.uid() != uid || about.mode() & 0o077 != 0 {
        let why = format!("must be a file of user {uid} that nobody else may read (mode 0600)");
        return Err(refuse(SECRET_FILE, &path, why));
    }
    let mut bytes = Vec::new();
    file.take(66)
        .read_to_end(&mut bytes)
        .map_err(|e| refuse(SECRET_FILE, &path, format!("cannot be read: {e}")))?;
    parse(&bytes)
        .map(Some)
        .ok_or_else(|| refuse(SECRET_FILE, &path, HOLDS.into()))
}

const HOLDS: &str = "must hold 32 bytes, or 64 hexadecimal digits and a newline";

/// 32 bytes, or 64 hexadecimal digits and perhaps a newline.
pub(crate) fn parse(bytes: &[u8]) -> Option<Secret> {
    if let Ok(raw) = Secret::try_from(bytes) {
        return Some(raw);
    }
    let text = std::str::from_utf8(bytes.strip_suffix(b"\n").unwrap_or(bytes)).ok()?;
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut secret = [0; 32];
    for (i, byte) in secret.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(secret)
}

/// As 64 hexadecimal digits.
pub(crate) fn hex(secret: &Secret) -> String {
    secret.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;

    fn from(name: &'static str, value: String) -> Result<Option<Secret>, JobError> {
        given(&|asked: &str| (asked == name).then(|| value.clone()))
    }

    #[test]
    fn a_file_must_be_private_and_whole() {
        let path = std::env::temp_dir().join(format!("farpost-secret-{}", std::process::id()));
        let text = path.to_str().unwrap().to_owned();
        let secret = draw("secret").unwrap();
        let mode = |m| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(m)).unwrap();
        for content in [
            secret.to_vec(),
            hex(&secret).into_bytes(),
            format!("{}\n", hex(&secret)).into_bytes(),
        ] {
            std::fs::write(&path, content).unwrap();
            mode(0o644);
            assert!(
                from(SECRET_FILE, text.clone())
                    .unwrap_err()
                    .to_string()
                    .contains("0600")
            );
            mode(0o600);
            assert_eq!(from(SECRET_FILE, text.clone()).unwrap(), Some(secret));
            let file = File::open(&path).unwrap();
            for _ in 0..2 {
                assert_eq!(
                    from(SECRET_FD, file.as_raw_fd().to_string()).unwrap(),
                    Some(secret)
                );
            }
        }
        for content in [&b""[..], b"short", &[b'g'; 64], &[0; 33], &[b'1'; 66]] {
            std::fs::write(&path, content).unwrap();
            let error = from(SECRET_FILE, text.clone()).unwrap_err().to_string();
            assert!(error.contains("32 bytes"), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(from(SECRET_FILE, text).is_err());
        assert!(from(SECRET_FD, "x".into()).is_err() && from(SECRET_FD, "9999".into()).is_err());
        assert_eq!(given(&|_: &str| None).unwrap(), None);
    }
}
