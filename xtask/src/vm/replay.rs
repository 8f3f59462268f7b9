//! Shows what the tests in a machine printed, and judges the run. The frames are those of `vm-tests/src/frame.rs`.

use super::kernel::Kernel;
use super::machine::Machine;
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// What came so far.
#[derive(Debug, Default)]
struct Report {
    /// The kernel that ran.
    release: Option<String>,
    exit: Option<Exit>,
    ended: bool,
    /// How many tests passed and failed, as the test binary counts them.
    counts: Option<(usize, usize)>,
}

/// How the test binary ended.
#[derive(Debug)]
enum Exit {
    Code(i64),
    Signal(i64),
}

/// Follows a machine to its end. An error names what the run lacks.
pub(super) fn replay(mut machine: Machine, kernel: &Kernel, expected: usize) -> Result<()> {
    let mut report = Report::default();
    let mut broken = None;
    while let Some(line) = machine.line() {
        match report.take(&line) {
            Ok(Some(shown)) => println!("{shown}"),
            Ok(None) => {}
            Err(error) => {
                broken = Some(error);
                break;
            }
        }
    }
    let seconds = machine.age().as_secs_f32();
    let accelerator = machine.accelerator;
    let name = &kernel.name;
    let verdict = broken.map_or_else(|| report.complete(expected), Err);
    let (passed, failed) = match verdict {
        Ok(counts) => counts,
        Err(error) => {
            eprintln!("vm {name}: the end of the console:\n{}", machine.console().trim_end());
            return Err(error.context(format!("vm {name}: no result")));
        }
    };
    let release = report.release.unwrap_or_default();
    println!("vm {name}: {passed} passed, {failed} failed ({release}, {accelerator}, {seconds:.0} s)");
    ensure!(failed == 0, "vm {name}: {failed} of {expected} tests failed");
    Ok(())
}

impl Report {
    /// Takes one frame, and returns the line to show for it.
    fn take(&mut self, line: &str) -> Result<Option<String>> {
        let frame: Value =
            serde_json::from_str(line).with_context(|| format!("`{}` is no frame", line.escape_debug()))?;
        let text = |field: &str| frame.get(field).and_then(Value::as_str).map(str::to_owned);
        match frame.get("frame").and_then(Value::as_str) {
            Some("start") if self.release.is_none() => self.release = text("release"),
            Some("line") if self.release.is_some() && self.exit.is_none() => {
                return Ok(self.shown(text("text").unwrap_or_default()));
            }
            Some("exit") if self.release.is_some() && self.exit.is_none() => {
                let number = |field: &str| frame.get(field).and_then(Value::as_i64);
                self.exit = number("code").map(Exit::Code).or_else(|| number("signal").map(Exit::Signal));
            }
            Some("end") if self.exit.is_some() => self.ended = true,
            _ => bail!("`{line}` is no frame that could come here"),
        }
        Ok(None)
    }

    /// What the test binary says about all tests is replaced by a line of ours.
    fn shown(&mut self, text: String) -> Option<String> {
        if let Some(summary) = text.strip_prefix("test result: ") {
            self.counts = counts(summary);
            return None;
        }
        let frame = text.is_empty() || (text.starts_with("running ") && text.contains(" test"));
        (!frame).then_some(text)
    }

    /// How many tests passed and failed, if all of them ran and all was reported.
    fn complete(&self, expected: usize) -> Result<(usize, usize)> {
        ensure!(self.release.is_some(), "the machine did not report that it started the tests");
        let code = match &self.exit {
            None => bail!("the machine did not report that the tests ended"),
            Some(Exit::Signal(signal)) => bail!("the tests were killed by signal {signal}"),
            Some(Exit::Code(code)) => *code,
        };
        ensure!(self.ended, "the machine did not report that it is done");
        let (passed, failed) = self.counts.context("the tests printed no result")?;
        ensure!(passed + failed == expected, "{} of {expected} tests ran", passed + failed);
        ensure!((code == 0) == (failed == 0), "exit code {code} with {failed} failed tests");
        Ok((passed, failed))
    }
}

/// From `ok. 3 passed; 0 failed; …`.
fn counts(summary: &str) -> Option<(usize, usize)> {
    let (_, parts) = summary.split_once(". ")?;
    let number = |word: &str| parts.split("; ").find_map(|part| part.strip_suffix(word)?.trim().parse().ok());
    Some((number("passed")?, number("failed")?))
}

#[cfg(test)]
mod tests {
    use super::Report;

    const START: &str = r#"{"frame":"start","release":"6.12.1"}"#;
    const EXIT: &str = r#"{"frame":"exit","code":0,"signal":null}"#;
    const END: &str = r#"{"frame":"end"}"#;

    fn line(text: &str) -> String {
        format!(r#"{{"frame":"line","text":"{text}"}}"#)
    }

    /// The verdict over a run of two tests, or the first bad frame.
    fn judge(frames: &[&str]) -> String {
        let mut report = Report::default();
        for frame in frames {
            if let Err(error) = report.take(frame) {
                return error.to_string();
            }
        }
        match report.complete(2) {
            Ok((passed, failed)) => format!("{passed} {failed}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_run_counts_only_if_all_was_reported() {
        let good = line("test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        let bad = line("test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out");
        let few = line("test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out");
        let failed = r#"{"frame":"exit","code":101,"signal":null}"#;
        let killed = r#"{"frame":"exit","code":null,"signal":9}"#;
        let rows: &[(&[&str], &str)] = &[
            (&[START, &good, EXIT, END], "2 0"),
            (&[START, &bad, failed, END], "1 1"),
            (&[], "the machine did not report that it started the tests"),
            (&[START, &good], "the machine did not report that the tests ended"),
            (&[START, &good, EXIT], "the machine did not report that it is done"),
            (&[START, EXIT, END], "the tests printed no result"),
            (&[START, &few, EXIT, END], "1 of 2 tests ran"),
            (&[START, &good, failed, END], "exit code 101 with 0 failed tests"),
            (&[START, &bad, EXIT, END], "exit code 0 with 1 failed tests"),
            (&[START, &good, killed, END], "the tests were killed by signal 9"),
            (&[&good, START], &format!("`{good}` is no frame that could come here")),
            (&[START, "[ 1.0] oops"], "`[ 1.0] oops` is no frame"),
        ];
        for (frames, verdict) in rows {
            assert_eq!(judge(frames), *verdict, "{frames:?}");
        }
    }

    #[test]
    fn the_binary_s_own_summary_is_not_shown() {
        let mut report = Report::default();
        let mut show = |frame: &str| report.take(frame).unwrap();
        assert_eq!(show(START), None);
        for hidden in ["", "running 2 tests", "test result: ok. 2 passed; 0 failed; 0 ignored"] {
            assert_eq!(show(&line(hidden)), None, "{hidden}");
        }
        assert_eq!(show(&line("test a ... ok")).as_deref(), Some("test a ... ok"));
    }
}
