//! The bearer token of clients over HTTP.
//!
//! Only its hash is kept, and hashes are compared in constant time, so that neither memory nor time tells of it.

use act_policy::escape;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, unlink};
use rustix::io::Errno;
use std::io::{Read as _, Write as _};
use std::path::Path;
use zeroize::Zeroizing;

/// Bytes of a token that is made here.
const RANDOM: usize = 32;
/// Shortest token that is taken from a file: 16 characters can hold 96 bits.
const MIN: usize = 16;
/// Longest.
const MAX: usize = 1024;

/// A token that clients have to send.
#[derive(Clone, Debug)]
pub struct Token(blake3::Hash);

/// Why there is no token; begins with the file's name, where there is one.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// A step failed.
    #[error("{path}: {step}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The step.
        step: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// Others could have read or set it.
    #[error("{0}: others can read or change it, or it is no regular file of this user (chmod 600, or choose another)")]
    NotPrivate(String),
    /// It holds no token.
    #[error("{0}: it must hold one line of 16 to 1024 letters, digits and -._~+/= (remove it, and a token is made)")]
    Malformed(String),
    /// The kernel gave no random numbers.
    #[error("no random numbers for a token: {0}")]
    Random(std::io::Error),
}

impl Token {
    /// The token in a file; a new one is written where there is no file, and then the second value is true.
    pub fn in_file(path: &Path) -> Result<(Self, bool), TokenError> {
        let shown = escape(&path.display().to_string());
        let io = |step, source: std::io::Error| TokenError::Io { path: shown.clone(), step, source };
        // A FIFO must not hold up the start; a link is followed, for what counts is who may write the file behind it.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match openat(CWD, path, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Self::write(path, io).map(|token| (token, true)),
            Err(e) => return Err(io("open", e.into())),
        };
        let stat = fstat(&file).map_err(|e| io("fstat", e.into()))?;
        let trusted = stat.st_uid == rustix::process::geteuid().as_raw() || stat.st_uid == 0;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || !trusted || stat.st_mode & 0o077 != 0 {
            return Err(TokenError::NotPrivate(shown));
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX + 3));
        std::fs::File::from(file).take(MAX as u64 + 3).read_to_end(&mut bytes).map_err(|e| io("read", e))?;
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // What a client could not send would let nobody in (RFC 6750 §2.1).
        let fits = |b: &u8| b.is_ascii_alphanumeric() || b"-._~+/=".contains(b);
        if !(MIN..=MAX).contains(&line.len()) || !line.iter().all(fits) {
            return Err(TokenError::Malformed(shown));
        }
        Ok((Self(blake3::hash(line)), false))
    }

    /// A new one, and its text.
    pub fn generate() -> Result<(Self, Zeroizing<String>), TokenError> {
        let mut bytes = Zeroizing::new([0u8; RANDOM]);
        // Up to 256 bytes come whole or not at all (getrandom(2)).
        let n = rustix::rand::getrandom(bytes.as_mut_slice(), rustix::rand::GetRandomFlags::empty())
            .map_err(|e| TokenError::Random(e.into()))?;
        if n != RANDOM {
            return Err(TokenError::Random(std::io::ErrorKind::UnexpectedEof.into()));
        }
        let text = Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_slice()));
        Ok((Self(blake3::hash(text.as_bytes())), text))
    }

    fn write(path: &Path, io: impl Fn(&'static str, std::io::Error) -> TokenError) -> Result<Self, TokenError> {
        let (token, mut text) = Self::generate()?;
        text.push('\n');
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(CWD, path, flags, Mode::from_raw_mode(0o600)).map_err(|e| io("create", e.into()))?;
        let mut file = std::fs::File::from(file);
        if let Err(e) = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()) {
            let _ = unlink(path);
            return Err(io("write", e));
        }
        Ok(token)
    }

    /// Whether a request brings it: in one `Authorization` header, with the scheme `Bearer`.
    pub(super) fn admits(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return false };
        let Some((scheme, rest)) = value.as_bytes().split_at_checked("Bearer ".len()) else { return false };
        // The comparison of hashes takes the same time whatever they are.
        scheme.eq_ignore_ascii_case(b"Bearer ") && blake3::hash(rest.trim_ascii()) == self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    fn bearing(values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (AUTHORIZATION, value.parse().unwrap())).collect()
    }

    #[test]
    fn only_the_token_is_admitted() {
        let (token, text) = Token::generate().unwrap();
        let text = text.as_str();
        assert_eq!(text.len(), 43);
        for (values, admitted) in [
            (vec![format!("Bearer {text}")], true),
            (vec![format!("bearer  {text}")], true),
            (vec![], false),
            (vec![String::new()], false),
            (vec!["Bearer ".into()], false),
            (vec![text.to_owned()], false),
            (vec![format!("Basic {text}")], false),
            (vec![format!("Bearer {text}x")], false),
            (vec![format!("Bearer {}", &text[1..])], false),
            (vec![format!("Bearer {text}"), format!("Bearer {text}")], false),
        ] {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            assert_eq!(token.admits(&bearing(&values)), admitted, "{values:?}");
        }
        assert!(!format!("{token:?}").contains(text));
    }

    #[test]
    fn a_file_is_made_once_and_must_be_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let (token, made) = Token::in_file(&path).unwrap();
        assert!(made);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(token.admits(&bearing(&[&format!("Bearer {}", text.trim_end())])));
        let (again, made) = Token::in_file(&path).unwrap();
        assert!(!made && again.0 == token.0);

        for mode in [0o640, 0o604, 0o620, 0o602] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(Token::in_file(&path), Err(TokenError::NotPrivate(_))), "{mode:o}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let long = "x".repeat(MAX);
        for (text, fits) in [
            ("0123456789abcdef", true),
            ("0123456789abcdef\r\n", true),
            (&long, true),
            ("", false),
            ("\n", false),
            ("0123456789abcde", false),
            ("0123456789abcdef\n\n", false),
            ("0123456789 abcdef", false),
            ("0123456789abcd\u{e9}f", false),
            (&format!("{long}x"), false),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(Token::in_file(&path).is_ok(), fits, "{text:?}");
        }
        assert!(matches!(Token::in_file(folder.path()), Err(TokenError::NotPrivate(_))));

        let link = folder.path().join("link");
        symlink(folder.path().join("nowhere"), &link).unwrap();
        assert!(matches!(Token::in_file(&link), Err(TokenError::Io { step: "create", .. })));
        assert!(!folder.path().join("nowhere").exists());
    }
}
