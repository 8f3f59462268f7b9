//! Words of a command, and the parts of a scope.

/// Split a command at white space; double quotes keep white space inside a word.
///
/// Words stay words: they are never joined to one text again.
pub(crate) fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut inside, mut quoted) = (false, false);
    for c in text.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                inside = true;
            }
            c if c.is_whitespace() && !quoted => {
                if inside {
                    words.push(std::mem::take(&mut word));
                }
                inside = false;
            }
            c => {
                inside = true;
                word.push(c);
            }
        }
    }
    if quoted {
        return Err("an unclosed quote".into());
    }
    if inside {
        words.push(word);
    }
    Ok(words)
}

/// The parts of a scope between commas that stand outside of braces, brackets and quotes.
pub(crate) fn parts(scope: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0u32;
    let mut quoted = false;
    scope.split(move |c: char| {
        match c {
            '"' => quoted = !quoted,
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0 && !quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_parts() {
        let words = |text: &str| split(text).unwrap().join("|");
        assert_eq!(words("git  push --force"), "git|push|--force");
        assert_eq!(words(r#"git commit -m "two words" "" a"b c"d"#), "git|commit|-m|two words||ab cd");
        assert_eq!(words(""), "");
        assert!(split("git \"push").is_err());
        let cut = |text| parts(text).collect::<Vec<_>>().join("|");
        assert_eq!(cut("./{a,b}/[x,y]"), "./{a,b}/[x,y]");
        assert_eq!(cut("./a, ./b"), "./a| ./b");
        assert_eq!(cut("\"a,b\".c"), "\"a,b\".c");
    }
}
