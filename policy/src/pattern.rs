//! Path patterns: a literal head and, below it, a glob.
//!
//! The head is compared byte for byte and never read as glob syntax, so a home or a mount whose name holds `[` or `{`
//! means itself. `*` and `?` stop at `/`, `**` crosses it, `{a,b}` and `[..]` work as in a shell. A pattern that is all
//! head names that file and, if it is a directory, all below it; `dir/**` includes `dir`.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Longest pattern in bytes (Linux `PATH_MAX`).
const MAX_PATTERN: usize = 4096;
/// Most alternatives that the braces of one pattern may expand to.
const MAX_ALTERNATIVES: usize = 256;
/// Most bytes of all those alternatives.
const MAX_EXPANDED: usize = 16 << 10;
/// Most pairs of braces: each is expanded by a call of its own.
const MAX_BRACES: usize = 64;
/// Most components of a glob: each is a glob of its own for the directories above.
const MAX_COMPONENTS: usize = 32;

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
    #[error("a path of more than {MAX_PATTERN} bytes")]
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
        if text.len() > MAX_PATTERN {
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
        if root.len() + relative.len() > MAX_PATTERN {
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
        pattern.globs()?;
        Ok(pattern)
    }

    /// The alternatives of the tail with braces expanded, `x/**` also as `x`; checks that each is a glob.
    fn globs(&self) -> Result<Vec<String>, PatternError> {
        if self.tail.is_empty() {
            return Ok(Vec::new());
        }
        let bad = |reason: String| PatternError::Glob { glob: self.tail.clone(), reason };
        let mut alternatives = Vec::new();
        expand(&self.tail, &mut alternatives).map_err(|reason| bad(reason.into()))?;
        if alternatives.iter().map(String::len).sum::<usize>() > MAX_EXPANDED {
            return Err(bad(format!("its alternatives have more than {MAX_EXPANDED} bytes")));
        }
        for glob in &alternatives {
            if glob.split('/').count() > MAX_COMPONENTS {
                return Err(bad(format!("more than {MAX_COMPONENTS} components below the first wildcard")));
            }
            // Each alone: a class or an escape never reaches over a slash.
            for component in glob.split('/') {
                build(component).map_err(|e| bad(e.kind().to_string()))?;
            }
            build(glob).map_err(|e| bad(e.kind().to_string()))?;
        }
        Ok(alternatives)
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

fn build(glob: &str) -> Result<globset::Glob, globset::Error> {
    GlobBuilder::new(glob).literal_separator(true).backslash_escape(true).build()
}

/// Whether a text holds glob syntax.
pub(crate) fn is_glob(text: &str) -> bool {
    has_magic(text)
}

/// A glob over keys and other text without structure: `*` matches any run of characters.
pub(crate) fn key_glob(glob: &str) -> Result<globset::Glob, PatternError> {
    let bad = |reason: String| PatternError::Glob { glob: glob.to_owned(), reason };
    if glob.len() > MAX_PATTERN {
        return Err(PatternError::TooLong);
    }
    if glob.contains(char::is_control) {
        return Err(PatternError::Control);
    }
    let mut alternatives = Vec::new();
    expand(glob, &mut alternatives).map_err(|reason| bad(reason.into()))?;
    GlobBuilder::new(glob).backslash_escape(true).empty_alternates(true).build().map_err(|e| bad(e.kind().to_string()))
}

/// Expand `{a,b}` into its alternatives.
fn expand(glob: &str, out: &mut Vec<String>) -> Result<(), &'static str> {
    if glob.bytes().filter(|b| *b == b'{').count() > MAX_BRACES {
        return Err("too many braces");
    }
    let mut depth = 0u32;
    let mut open = None;
    let mut cuts = Vec::new();
    let mut close = None;
    let mut escaped = false;
    let mut class = false;
    for (i, c) in glob.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match c {
            '\\' => escaped = true,
            '[' if !class => class = true,
            ']' if class => class = false,
            // Globs are matched byte by byte, so that such a class would match nothing.
            c if class && !c.is_ascii() => return Err("only ASCII in [..]: write {a,b}"),
            _ if class => {}
            '{' => {
                depth += 1;
                if depth == 1 {
                    open = Some(i);
                }
            }
            ',' if depth == 1 => cuts.push(i),
            '}' if depth == 0 => return Err("unopened brace"),
            '}' => {
                depth -= 1;
                if depth == 0 {
                    close = Some(i);
                    break;
                }
            }
            _ => {}
        }
    }
    let (Some(open), Some(close)) = (open, close) else {
        if open.is_some() {
            return Err("unclosed brace");
        }
        if out.len() >= MAX_ALTERNATIVES {
            return Err("too many alternatives");
        }
        out.push(glob.to_owned());
        return Ok(());
    };
    let before = glob.get(..open).unwrap_or_default();
    let after = glob.get(close + 1..).unwrap_or_default();
    let mut start = open + 1;
    cuts.push(close);
    for cut in cuts {
        let middle = glob.get(start..cut).unwrap_or_default();
        expand(&format!("{before}{middle}{after}"), out)?;
        start = cut + 1;
    }
    Ok(())
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
    tail: Option<Tail>,
}

#[derive(Debug)]
struct Tail {
    full: GlobSet,
    /// Those alternatives that end in `/**`, with and without it: what they match, they match with all below.
    subtree: GlobSet,
    ancestors: GlobSet,
}

impl Matcher {
    pub(crate) fn new(pattern: &PathPattern) -> Result<Self, PatternError> {
        let globs = pattern.globs()?;
        let bad = |e: &globset::Error| PatternError::Glob { glob: pattern.tail.clone(), reason: e.kind().to_string() };
        if globs.is_empty() {
            return Ok(Self { head: pattern.head.clone(), tail: None });
        }
        let mut full = GlobSetBuilder::new();
        let mut subtree = GlobSetBuilder::new();
        let mut ancestors = GlobSetBuilder::new();
        for glob in &globs {
            full.add(build(glob).map_err(|e| bad(&e))?);
            if let Some(directory) = glob.strip_suffix("/**") {
                full.add(build(directory).map_err(|e| bad(&e))?);
                subtree.add(build(directory).map_err(|e| bad(&e))?);
                subtree.add(build(glob).map_err(|e| bad(&e))?);
            }
            let mut prefix = String::new();
            let mut components = glob.split('/').peekable();
            while let Some(component) = components.next() {
                if !prefix.is_empty() {
                    ancestors.add(build(&prefix).map_err(|e| bad(&e))?);
                    prefix.push('/');
                }
                // Anywhere else, `**` is two stars that stop at the slash.
                if component == "**" {
                    ancestors.add(build(&format!("{prefix}**")).map_err(|e| bad(&e))?);
                    break;
                }
                prefix.push_str(component);
                if components.peek().is_none() {
                    break;
                }
            }
        }
        let finish = |builder: &GlobSetBuilder| builder.build().map_err(|e| bad(&e));
        let tail = Tail { full: finish(&full)?, subtree: finish(&subtree)?, ancestors: finish(&ancestors)? };
        Ok(Self { head: pattern.head.clone(), tail: Some(tail) })
    }

    /// How this pattern covers an absolute path without a trailing slash (the root is empty).
    pub(crate) fn cover(&self, path: &[u8]) -> Option<Cover> {
        match path.strip_prefix(self.head.as_slice()) {
            Some(below) => self.cover_below(below),
            None if is_below(&self.head, path) => Some(Cover::Ancestor),
            None => None,
        }
    }

    /// Whether this pattern matches a path and everything that could be below it.
    pub(crate) fn covers_subtree(&self, path: &[u8]) -> bool {
        match (path.strip_prefix(self.head.as_slice()), &self.tail) {
            (Some(below), None) => below.is_empty() || below.first() == Some(&b'/'),
            (Some([b'/', rest @ ..]), Some(tail)) => tail.subtree.is_match(Path::new(OsStr::from_bytes(rest))),
            _ => false,
        }
    }

    fn cover_below(&self, below: &[u8]) -> Option<Cover> {
        let rest = match below.split_first() {
            None => below,
            Some((b'/', rest)) => rest,
            Some(_) => return None,
        };
        let Some(tail) = &self.tail else { return Some(Cover::Full) };
        if rest.is_empty() {
            // The head itself: a glob names something below it, `**/x` included.
            return Some(Cover::Ancestor);
        }
        let rest = Path::new(OsStr::from_bytes(rest));
        if tail.full.is_match(rest) {
            Some(Cover::Full)
        } else if tail.ancestors.is_match(rest) {
            Some(Cover::Ancestor)
        } else {
            None
        }
    }
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
