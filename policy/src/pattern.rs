//! Path patterns: a literal head and, below it, a glob.
//!
//! The head is compared byte for byte and never read as glob syntax, so a home or a mount whose name holds `[` or `{`
//! means itself. `*` and `?` stop at `/`, `**` crosses it, `{a,b}` and `[..]` work as in a shell. A pattern that is all
//! head names that file and, if it is a directory, all below it; `dir/**` includes `dir`.

use crate::glob::{KeyGlob, MAX_GLOB, PathGlob};
use serde::{Deserialize, Serialize};

/// A path pattern over host paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PathPattern {
    /// Absolute literal directory or file, without a trailing slash; empty for the root.
    pub head: Vec<u8>,
    /// Glob below the head; empty when the whole pattern is literal.
    pub tail: String,
}

/// Why a text is not a path pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Nothing there.
    #[error("empty path")]
    Empty,
    /// Not anchored.
    #[error("`{}` is not an absolute path", .0.escape_debug())]
    NotAbsolute(String),
    /// `.` or `..`, which no resolved path holds.
    #[error("`{}` holds a `.` or `..` component", .0.escape_debug())]
    Dots(String),
    /// Control characters.
    #[error("control characters in a path or key")]
    Control,
    /// Too long.
    #[error("a path of more than {MAX_GLOB} bytes")]
    TooLong,
    /// Not a glob.
    #[error("invalid glob `{}`: {}", glob.escape_debug(), crate::escape(reason))]
    Glob {
        /// The text.
        glob: String,
        /// What is wrong.
        reason: String,
    },
}

fn has_magic(component: &str) -> bool {
    component.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

impl PathPattern {
    /// Parse an absolute pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        if text.len() > MAX_GLOB {
            return Err(PatternError::TooLong);
        }
        if text.contains(char::is_control) {
            return Err(PatternError::Control);
        }
        let Some(relative) = text.strip_prefix('/') else { return Err(PatternError::NotAbsolute(text.into())) };
        Self::below(Vec::new(), relative, text)
    }

    /// Parse `relative` (a pattern without a leading slash) below a literal directory.
    ///
    /// `root` is absolute without a trailing slash, empty for `/`; its characters are never glob syntax.
    pub fn join(root: &str, relative: &str) -> Result<Self, PatternError> {
        if relative.is_empty() {
            return Err(PatternError::Empty);
        }
        if root.contains(char::is_control) || relative.contains(char::is_control) {
            return Err(PatternError::Control);
        }
        if root.len() + relative.len() > MAX_GLOB {
            return Err(PatternError::TooLong);
        }
        Self::below(root.trim_end_matches('/').as_bytes().to_vec(), relative, relative)
    }

    fn below(mut head: Vec<u8>, relative: &str, text: &str) -> Result<Self, PatternError> {
        let mut tail: Vec<&str> = Vec::new();
        let mut descended = false;
        for component in relative.split('/').filter(|c| !c.is_empty()) {
            match component {
                "." => {}
                // Below a name that may be a link, the text does not tell where `..` leads.
                ".." if !descended => {
                    let up = head.iter().rposition(|b| *b == b'/').unwrap_or(0);
                    head.truncate(up);
                }
                ".." => return Err(PatternError::Dots(text.into())),
                literal if tail.is_empty() && !has_magic(literal) => {
                    descended = true;
                    head.push(b'/');
                    head.extend_from_slice(literal.as_bytes());
                }
                glob => {
                    descended = true;
                    tail.push(glob);
                }
            }
        }
        let tail = if tail == ["**"] { String::new() } else { tail.join("/") };
        let pattern = Self { head, tail };
        pattern.glob()?;
        Ok(pattern)
    }

    /// The tail, ready to match.
    pub(crate) fn glob(&self) -> Result<Option<PathGlob>, PatternError> {
        if self.tail.is_empty() {
            return Ok(None);
        }
        let bad = |reason: &str| PatternError::Glob { glob: self.tail.clone(), reason: reason.into() };
        PathGlob::parse(&self.tail).map(Some).map_err(bad)
    }

    /// What the pattern costs to keep, in bytes or so.
    pub(crate) fn cost(&self) -> usize {
        crate::glob::cost(&self.tail)
    }

    /// The pattern as text, as a person would write it.
    pub fn display(&self) -> String {
        let head = String::from_utf8_lossy(&self.head);
        match (head.is_empty(), self.tail.is_empty()) {
            (true, true) => "/**".into(),
            (false, true) => head.into_owned(),
            (_, false) => format!("{head}/{}", self.tail),
        }
    }
}

/// Whether a text holds glob syntax.
pub(crate) fn is_glob(text: &str) -> bool {
    has_magic(text)
}

/// A glob over keys and other text without structure: `*` matches any run of characters.
pub(crate) fn key_glob(glob: &str) -> Result<KeyGlob, PatternError> {
    if glob.len() > MAX_GLOB {
        return Err(PatternError::TooLong);
    }
    if glob.contains(char::is_control) {
        return Err(PatternError::Control);
    }
    KeyGlob::parse(glob).map_err(|reason| PatternError::Glob { glob: glob.to_owned(), reason: reason.into() })
}

/// How a pattern covers a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cover {
    /// The path is matched.
    Full,
    /// The path is a directory on the way to something that could be matched.
    Ancestor,
}

/// A pattern that is ready to match.
#[derive(Debug)]
pub(crate) struct Matcher {
    head: Vec<u8>,
    /// `None`: the head and all below it.
    tail: Option<PathGlob>,
}

impl Matcher {
    pub(crate) fn new(pattern: &PathPattern) -> Result<Self, PatternError> {
        Ok(Self { head: pattern.head.clone(), tail: pattern.glob()? })
    }

    /// How this pattern covers an absolute path without a trailing slash (the root is empty).
    pub(crate) fn cover(&self, path: &[u8]) -> Option<Cover> {
        match path.strip_prefix(self.head.as_slice()) {
            Some(below) if below.is_empty() || below.first() == Some(&b'/') => {
                cover_below(self.tail.as_ref(), below.get(1..).unwrap_or_default())
            }
            None if is_below(&self.head, path) => Some(Cover::Ancestor),
            Some(_) | None => None,
        }
    }
}

/// How what follows a head covers a path relative to it.
pub(crate) fn cover_below(tail: Option<&PathGlob>, below: &[u8]) -> Option<Cover> {
    let Some(tail) = tail else { return Some(Cover::Full) };
    let reach = tail.reach(below);
    if reach.full { Some(Cover::Full) } else { reach.on_the_way.then_some(Cover::Ancestor) }
}

/// Whether `path` lies strictly below `directory` (the root is empty).
pub(crate) fn is_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.first() == Some(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covers() {
        use Cover::{Ancestor, Full};
        for (pattern, path, expected) in [
            ("/tmp/work", "/tmp/work", Some(Full)),
            ("/tmp/work", "/tmp/work/sub/f", Some(Full)),
            ("/tmp/work", "/tmp/work2", None),
            ("/tmp/work", "/tmp/other", None),
            ("/tmp/work", "/tmp", Some(Ancestor)),
            ("/tmp/work", "", Some(Ancestor)),
            ("/tmp/work/", "/tmp/work/f", Some(Full)),
            ("/tmp/work/**", "/tmp/work", Some(Full)),
            ("/tmp/work/**", "/tmp/work-secret", None),
            ("/tmp/work/**/*.db", "/tmp/work/a/b.db", Some(Full)),
            ("/tmp/work/**/*.db", "/tmp/work/b.db", Some(Full)),
            ("/tmp/work/**/*.db", "/tmp/work/a/b.txt", Some(Ancestor)),
            ("/tmp/work/**/*.db", "/tmp/work", Some(Ancestor)),
            ("/tmp/*.db", "/tmp/foo.db", Some(Full)),
            ("/tmp/*.db", "/tmp/a/foo.db", None),
            ("/tmp/*.db", "/tmp/a", None),
            ("/tmp/?.db", "/tmp/ab.db", None),
            ("/tmp/sub?x", "/tmp/sub/x", None),
            ("/h/{projects,work}/**", "/h/projects", Some(Full)),
            ("/h/{projects,work}/**", "/h/work/d/r", Some(Full)),
            ("/h/{projects,work}/**", "/h/downloads", None),
            ("/h/{a/b,c}/x", "/h/a", Some(Ancestor)),
            ("/h/{a/b,c}/x", "/h/a/b/x", Some(Full)),
            ("/h/{a/b,c}/x", "/h/b", None),
            ("/h/[ab].txt", "/h/a.txt", Some(Full)),
            ("/h/[ab].txt", "/h/c.txt", None),
            ("/h/*/docs", "/h/u", Some(Ancestor)),
            ("/h/*/docs", "/h/u/docs", Some(Full)),
            ("/h/*/docs", "/h/u/docs/x", None),
            ("/**", "", Some(Full)),
            ("/**", "/etc/passwd", Some(Full)),
            ("/", "/etc/passwd", Some(Full)),
            ("/a/./b//d", "/a/b/d/e", Some(Full)),
        ] {
            let matcher = Matcher::new(&PathPattern::parse(pattern).unwrap()).unwrap();
            assert_eq!(matcher.cover(path.as_bytes()), expected, "{pattern} over {path}");
        }
    }

    #[test]
    fn the_characters_of_a_root_are_literal() {
        let pattern = PathPattern::join("/home/[x]{a,b}*", "d/*.txt").unwrap();
        let matcher = Matcher::new(&pattern).unwrap();
        assert_eq!(matcher.cover(b"/home/[x]{a,b}*/d/f.txt"), Some(Cover::Full));
        assert_eq!(matcher.cover(b"/home/xa/d/f.txt"), None);
        assert_eq!(matcher.cover(b"/home/[x]{a,b}*/d/\xff.txt"), Some(Cover::Full));
    }

    #[test]
    fn texts_that_are_no_pattern() {
        for text in [
            "",
            "a/b",
            "/a/*/../b",
            "/a/../b",
            "/a\nb",
            "/a/[",
            "/a/{b",
            "/a/b}",
            "/a/{a,{b}",
            &format!("/{}", "x".repeat(5000)),
        ] {
            assert!(PathPattern::parse(text).is_err(), "{text:?}");
        }
        let many = "/{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}{0,1}";
        assert!(matches!(PathPattern::parse(many), Err(PatternError::Glob { .. })));
    }
}
