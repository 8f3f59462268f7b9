//! Globs over names and keys.
//!
//! What a glob is matched with is bytes, which need not be UTF-8: a file may have any name. It is read as characters, and
//! a byte that belongs to none stands for itself: `?`, `*` and `[!..]` match it as they match a character. A library that
//! matches byte by byte would let `?` miss a letter outside ASCII, and with it a deny; one that matches text would miss
//! every name that is none. No match costs more than the product of both lengths.

/// Longest glob in bytes (Linux `PATH_MAX`).
pub(crate) const MAX_GLOB: usize = 4096;
/// Most alternatives that the braces of one glob may expand to.
const MAX_ALTERNATIVES: usize = 256;
/// Most bytes of all those alternatives.
const MAX_EXPANDED: usize = 16 << 10;
/// Most pairs of braces: each is expanded by a call of its own.
const MAX_BRACES: usize = 64;
/// Most steps of a name; one of Linux has at most 255 bytes (`NAME_MAX`).
const MAX_STEPS: usize = 512;
/// Most components of a path glob: the states of a match are the bits of a `u64`.
const MAX_COMPONENTS: usize = 32;

/// A glob without braces over one name, or over a key as a whole.
#[derive(Debug)]
struct NameGlob {
    steps: Box<[Step]>,
}

#[derive(Debug)]
enum Step {
    /// Exactly this.
    Text(Box<[u8]>),
    /// `?`
    One,
    /// `*`
    Run,
    /// `[..]`
    Class { negated: bool, ranges: Box<[(char, char)]> },
}

impl NameGlob {
    fn parse(glob: &str) -> Result<Self, &'static str> {
        let mut steps = Vec::new();
        let mut chars = glob.chars();
        while let Some(c) = chars.next() {
            let literal = match c {
                '?' => {
                    steps.push(Step::One);
                    continue;
                }
                '*' => {
                    if !matches!(steps.last(), Some(Step::Run)) {
                        steps.push(Step::Run);
                    }
                    continue;
                }
                '[' => {
                    let length = class_length(chars.as_str())?;
                    let inner = chars.as_str().get(..length).unwrap_or_default();
                    steps.push(class(inner)?);
                    chars = chars.as_str().get(length + 1..).unwrap_or_default().chars();
                    continue;
                }
                '\\' => chars.next().ok_or("nothing after the last backslash")?,
                c => c,
            };
            let mut buffer = [0; 4];
            let bytes = literal.encode_utf8(&mut buffer).as_bytes();
            match steps.last_mut() {
                Some(Step::Text(text)) => *text = [text, bytes].concat().into(),
                _ => steps.push(Step::Text(bytes.into())),
            }
        }
        if steps.len() > MAX_STEPS {
            return Err("too many wildcards in one name");
        }
        Ok(Self { steps: steps.into() })
    }

    fn matches(&self, name: &[u8]) -> bool {
        let mut rest = name;
        let mut steps = self.steps.iter();
        // What follows the last `*`, and where that was tried. Runs before it need no second try: giving the last one
        // more can only be tried later.
        let mut retry: Option<(std::slice::Iter<'_, Step>, &[u8])> = None;
        loop {
            let matched = match steps.next() {
                Some(Step::Run) => {
                    retry = Some((steps.clone(), rest));
                    continue;
                }
                Some(step) => step.take(rest),
                None if rest.is_empty() => return true,
                None => None,
            };
            rest = if let Some(after) = matched {
                after
            } else {
                let Some((after, from)) = &mut retry else { return false };
                let Some((_, later)) = first(from) else { return false };
                *from = later;
                steps = after.clone();
                later
            };
        }
    }
}

impl Step {
    /// What is left of `rest` after this step; a run takes nothing by itself.
    fn take<'a>(&self, rest: &'a [u8]) -> Option<&'a [u8]> {
        match self {
            Self::Text(text) => rest.strip_prefix(&**text),
            Self::One => first(rest).map(|(_, after)| after),
            Self::Run => Some(rest),
            Self::Class { negated, ranges } => {
                let (c, after) = first(rest)?;
                let inside = c.is_some_and(|c| ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)));
                (inside != *negated).then_some(after)
            }
        }
    }
}

/// The first character, or `None` for a byte that belongs to none, and what follows.
fn first(bytes: &[u8]) -> Option<(Option<char>, &[u8])> {
    let (lead, after) = bytes.split_first()?;
    if lead.is_ascii() {
        return Some((Some(char::from(*lead)), after));
    }
    let most = bytes.get(..4).unwrap_or(bytes);
    let chunk = most.utf8_chunks().next()?;
    match chunk.valid().chars().next() {
        Some(c) => bytes.get(c.len_utf8()..).map(|after| (Some(c), after)),
        None => Some((None, after)),
    }
}

/// How many bytes of `text`, which follows a `[`, belong to the class.
fn class_length(text: &str) -> Result<usize, &'static str> {
    let unclosed = "unclosed `[`";
    let negation = usize::from(text.starts_with(['!', '^']));
    let inner = text.get(negation..).unwrap_or_default();
    // A bracket that comes first is one of its characters.
    let bracket = usize::from(inner.starts_with(']'));
    let length = inner.get(bracket..).unwrap_or_default().find(']').ok_or(unclosed)?;
    Ok(negation + bracket + length)
}

fn class(text: &str) -> Result<Step, &'static str> {
    if text.contains(['\\', '/']) {
        return Err("`\\` or `/` in `[..]`: write {a,b}");
    }
    let negated = text.starts_with(['!', '^']);
    let mut rest: Vec<char> = text.chars().skip(usize::from(negated)).collect();
    rest.reverse();
    let mut ranges = Vec::new();
    while let Some(low) = rest.pop() {
        let high = match rest.as_slice() {
            [.., high, '-'] => *high,
            _ => low,
        };
        if rest.len() >= 2 && rest.ends_with(&['-']) {
            rest.truncate(rest.len() - 2);
        }
        if high < low {
            return Err("a range in `[..]` that runs backwards");
        }
        ranges.push((low, high));
    }
    if ranges.is_empty() {
        return Err("an empty `[..]`");
    }
    Ok(Step::Class { negated, ranges: ranges.into() })
}

/// A glob over keys and other text without structure: `*` matches any run of characters.
#[derive(Debug)]
pub(crate) struct KeyGlob {
    alternatives: Box<[NameGlob]>,
}

impl KeyGlob {
    pub(crate) fn parse(glob: &str) -> Result<Self, &'static str> {
        let alternatives = expand(glob)?.into_iter().map(|glob| NameGlob::parse(&glob));
        Ok(Self { alternatives: alternatives.collect::<Result<_, _>>()? })
    }

    pub(crate) fn matches(&self, key: &str) -> bool {
        self.alternatives.iter().any(|glob| glob.matches(key.as_bytes()))
    }
}

/// A glob over relative paths, component by component.
#[derive(Debug)]
pub(crate) struct PathGlob {
    alternatives: Box<[Box<[Component]>]>,
}

#[derive(Debug)]
enum Component {
    /// `**`: any number of names, also none.
    Deep,
    Name(NameGlob),
}

/// What a glob says of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// It matches the path.
    pub(crate) full: bool,
    /// It could match something below the path.
    pub(crate) on_the_way: bool,
    /// It matches everything below the path.
    pub(crate) subtree: bool,
}

impl PathGlob {
    pub(crate) fn parse(glob: &str) -> Result<Self, &'static str> {
        let alternatives = expand(glob)?.into_iter().map(|glob| components(&glob));
        Ok(Self { alternatives: alternatives.collect::<Result<_, _>>()? })
    }

    /// What this glob says of a relative path; that of the directory where it begins is empty.
    pub(crate) fn reach(&self, path: &[u8]) -> Reach {
        let mut reach = Reach::default();
        for components in &self.alternatives {
            let (full, states) = walk(components, path);
            reach.full |= full;
            reach.on_the_way |= states != 0;
            let deep_end = matches!(components.last(), Some(Component::Deep));
            reach.subtree |= deep_end && states & (1 << (components.len() - 1)) != 0;
        }
        reach
    }
}

/// All components of the path through the glob: whether it ends there, and the set of components that could match what
/// comes next.
fn walk(components: &[Component], path: &[u8]) -> (bool, u64) {
    let count = components.len();
    // `**` also matches no name at all.
    let skip_deep = |mut states: u64| {
        for (i, component) in components.iter().enumerate() {
            if states & (1 << i) != 0 && matches!(component, Component::Deep) {
                states |= 1 << (i + 1);
            }
        }
        states
    };
    let mut states = skip_deep(1);
    for name in path.split(|b| *b == b'/').filter(|name| !name.is_empty()) {
        let mut next = 0;
        for (i, component) in components.iter().enumerate() {
            if states & (1 << i) != 0 {
                match component {
                    Component::Deep => next |= 1 << i,
                    Component::Name(glob) if glob.matches(name) => next |= 1 << (i + 1),
                    Component::Name(_) => {}
                }
            }
        }
        states = skip_deep(next);
        if states == 0 {
            break;
        }
    }
    let end = 1 << count;
    (states & end != 0, states & !end)
}

fn components(glob: &str) -> Result<Box<[Component]>, &'static str> {
    let mut components = Vec::new();
    for text in glob.split('/').filter(|text| !text.is_empty()) {
        components.push(match text {
            "**" => Component::Deep,
            "." | ".." => return Err("a `.` or `..` component"),
            name => Component::Name(NameGlob::parse(name)?),
        });
    }
    if components.len() > MAX_COMPONENTS {
        return Err("more than 32 components below the first wildcard");
    }
    Ok(components.into())
}

/// What a glob costs to keep, in bytes or so: braces make much of little.
pub(crate) fn cost(glob: &str) -> usize {
    /// Of an alternative besides its text.
    const EACH: usize = 64;
    expand(glob).map_or(0, |alternatives| alternatives.iter().map(|text| text.len() + EACH).sum())
}

/// The alternatives that the braces of a glob stand for.
fn expand(glob: &str) -> Result<Vec<String>, &'static str> {
    if glob.len() > MAX_GLOB {
        return Err("more than 4096 bytes");
    }
    if glob.bytes().filter(|b| *b == b'{').count() > MAX_BRACES {
        return Err("too many braces");
    }
    let mut alternatives = Vec::new();
    expand_into(glob.to_owned(), &mut alternatives)?;
    if alternatives.iter().map(String::len).sum::<usize>() > MAX_EXPANDED {
        return Err("its alternatives have more than 16384 bytes");
    }
    Ok(alternatives)
}

fn expand_into(glob: String, out: &mut Vec<String>) -> Result<(), &'static str> {
    let Some(braces) = outer_braces(&glob)? else {
        if out.len() >= MAX_ALTERNATIVES {
            return Err("too many alternatives");
        }
        out.push(glob);
        return Ok(());
    };
    let before = glob.get(..braces.open).unwrap_or_default();
    let after = glob.get(braces.close + 1..).unwrap_or_default();
    let mut start = braces.open + 1;
    for end in braces.commas.into_iter().chain([braces.close]) {
        let middle = glob.get(start..end).unwrap_or_default();
        expand_into(format!("{before}{middle}{after}"), out)?;
        start = end + 1;
    }
    Ok(())
}

/// Where the first braces that stand in no others begin and end, and the commas between their alternatives.
struct Braces {
    open: usize,
    commas: Vec<usize>,
    close: usize,
}

fn outer_braces(glob: &str) -> Result<Option<Braces>, &'static str> {
    let mut depth = 0u32;
    let mut open = 0;
    let mut commas = Vec::new();
    let mut at = 0;
    while let Some(c) = glob.get(at..).and_then(|rest| rest.chars().next()) {
        match c {
            '\\' => at += glob.get(at + 1..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8),
            // What stands in a class is no brace.
            '[' => at += class_length(glob.get(at + 1..).unwrap_or_default())? + 1,
            '{' => {
                depth += 1;
                if depth == 1 {
                    open = at;
                }
            }
            ',' if depth == 1 => commas.push(at),
            '}' if depth == 0 => return Err("unopened brace"),
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(Braces { open, commas, close: at }));
                }
            }
            _ => {}
        }
        at += c.len_utf8();
    }
    if depth > 0 { Err("unclosed brace") } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(glob: &str, key: &str) -> bool {
        KeyGlob::parse(glob).unwrap().matches(key)
    }

    fn path(glob: &str, path: &[u8]) -> bool {
        PathGlob::parse(glob).unwrap().reach(path).full
    }

    #[test]
    fn characters_are_matched_and_not_bytes() {
        for (glob, yes, no) in [
            ("?", &["a", "é", "€", "𝄞", "\u{301}"][..], &["", "ab", "éa", "e\u{301}"][..]),
            ("??", &["ab", "éa", "é€"], &["é", "€", "𝄞"]),
            ("[é]", &["é"], &["e", "ê", "éé"]),
            ("[à-ö]x", &["éx"], &["zx", "éé"]),
            ("[!a]", &["b", "é", "€"], &["a", "bb", ""]),
            ("*é*", &["é", "aéb"], &["e", "\u{e8}"]),
            ("caf?", &["café", "cafe"], &["caf", "cafés"]),
        ] {
            for text in yes {
                assert!(key(glob, text) && path(glob, text.as_bytes()), "{glob} {text}");
            }
            for text in no {
                assert!(!key(glob, text) && (text.is_empty() || !path(glob, text.as_bytes())), "{glob} {text}");
            }
        }
        // A byte that is no character is one of its own.
        for (glob, name, expected) in [
            ("?", &b"\xff"[..], true),
            ("?", b"\xc3", true),
            ("??", b"\xc3\xff", true),
            ("?", b"\xc3\xff", false),
            ("*.txt", b"\xff\xfe.txt", true),
            ("[!a]", b"\xff", true),
            ("[a-z]", b"\xff", false),
            ("?", b"\xf0\x9f\x92", false),
            ("???", b"\xf0\x9f\x92", true),
            ("\u{fffd}", b"\xff", false),
        ] {
            assert_eq!(path(glob, name), expected, "{glob} {name:?}");
        }
    }

    #[test]
    fn classes_and_escapes() {
        for (glob, yes, no) in [
            ("[]a]", "]", "["),
            ("[!]a]", "b", "]"),
            ("[a-]", "-", "b"),
            ("[-a]", "-", "b"),
            ("[a-c-e]", "-", "d"),
            ("[a-c-e]", "e", "d"),
            ("[^a]", "b", "a"),
            ("[{]x,y[}]", "{x,y}", "x"),
            ("\\*", "*", "a"),
            ("\\{a,b\\}", "{a,b}", "a"),
            ("{a\\,b,c}", "a,b", "a"),
            ("{a,{b,c}d}e", "bde", "be"),
            ("{,x}y", "y", "zy"),
        ] {
            assert!(key(glob, yes), "{glob} {yes}");
            assert!(!key(glob, no), "{glob} {no}");
        }
        for glob in ["[", "[]", "[!]", "[a", "a\\", "[b-a]", "[a\\]", "{a", "a}", "{[a}", "[é-à]"] {
            assert!(KeyGlob::parse(glob).is_err(), "{glob}");
        }
        for glob in ["[a/b]", "{..,x}", "a*/../b", "{a,.}/b", &"*/".repeat(33)] {
            assert!(PathGlob::parse(glob).is_err(), "{glob}");
        }
    }

    #[test]
    fn paths() {
        let reach = |glob: &str, path: &str| {
            let Reach { full, on_the_way, subtree } = PathGlob::parse(glob).unwrap().reach(path.as_bytes());
            (full, on_the_way, subtree)
        };
        for (glob, path, expected) in [
            ("**", "", (true, true, true)),
            ("{**,x}", "", (true, true, true)),
            ("{,x}", "", (true, true, false)),
            ("{,x}", "y", (false, false, false)),
            ("{a/,b}", "a", (true, false, false)),
            ("*/**", "", (false, true, false)),
            ("*/**", "a", (true, true, true)),
            ("*/**", "a/b/c", (true, true, true)),
            ("**/a", "a", (true, true, false)),
            ("**/a", "x/y/a", (true, true, false)),
            ("**/a", "x/y", (false, true, false)),
            ("a/**/b", "a/b", (true, true, false)),
            ("a/**/b", "a/x/b", (true, true, false)),
            ("a/**/b", "b", (false, false, false)),
            ("**/**", "a", (true, true, true)),
            ("x/**/y/**", "x/1/y/2/y", (true, true, true)),
            ("x/**/y/**", "x/1", (false, true, false)),
            ("a**b", "a/b", (false, false, false)),
            ("a**b", "axb", (true, false, false)),
        ] {
            assert_eq!(reach(glob, path), expected, "{glob} over {path}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "steps by the million, for half an hour in Miri")]
    fn a_costly_match_ends() {
        let glob = format!("{}b", "*a".repeat(250));
        assert!(!key(&glob, &"a".repeat(64 << 10)));
        assert!(NameGlob::parse(&"*a".repeat(300)).is_err());
    }

    /// `globset` as the judge where both read a name alike: in ASCII.
    fn by_globset(glob: &str, path: &str, separator: bool) -> Option<bool> {
        let mut builder = globset::GlobBuilder::new(glob);
        builder.literal_separator(separator).backslash_escape(true).empty_alternates(true);
        builder.build().ok().map(|glob| glob.compile_matcher().is_match(path))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        #[cfg_attr(miri, ignore = "random inputs are made from regular expressions, for minutes in Miri")]
        fn as_globset_in_ascii(glob in "([abc*?]|\\[!?[abc]{1,2}\\]|\\{[ab]{1,2},c\\}|\\\\[*?a]){0,6}", key in "[abc*?]{0,6}") {
            let expected = by_globset(&glob, &key, false).unwrap();
            prop_assert_eq!(KeyGlob::parse(&glob).unwrap().matches(&key), expected);
        }

        #[test]
        #[cfg_attr(miri, ignore = "random inputs are made from regular expressions, for minutes in Miri")]
        fn paths_as_globset_in_ascii(
            glob in "([ab?]|\\*|\\*a|\\[!a\\]|\\{a,b\\}|\\*\\*)(/([ab?]|\\*|\\*a|\\[!a\\]|\\{a,b\\}|\\*\\*)){0,3}",
            path in "[abc]{1,2}(/[abc]{1,2}){0,3}",
        ) {
            // Ours also means the directory before a last `/**`.
            let directory = glob.trim_end_matches("/**");
            let expected = by_globset(&glob, &path, true).unwrap()
                || directory != glob && by_globset(directory, &path, true).unwrap();
            prop_assert_eq!(PathGlob::parse(&glob).unwrap().reach(path.as_bytes()).full, expected);
        }

        #[test]
        #[cfg_attr(miri, ignore = "random inputs are made from regular expressions, for minutes in Miri")]
        fn never_panics(glob in "\\PC{0,40}", name in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(glob) = PathGlob::parse(&glob) {
                let _ = glob.reach(&name);
            }
            if let Ok(glob) = KeyGlob::parse(&glob) {
                let _ = glob.matches(&String::from_utf8_lossy(&name));
            }
        }

        #[test]
        #[cfg_attr(miri, ignore = "random inputs are made from regular expressions, for minutes in Miri")]
        fn one_wildcard_is_one_character(c in any::<char>().prop_filter("no slash", |c| *c != '/')) {
            let text = c.to_string();
            prop_assert!(key("?", &text) && path("?", text.as_bytes()) && !path("??", text.as_bytes()));
            prop_assert_eq!(key("[!a]", &text), c != 'a');
        }
    }
}
