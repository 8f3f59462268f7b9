//! How long decisions and compiling take, by the number of rules, beside cedar-policy. See the README.

mod act;
mod cedar;
mod measure;
mod random;
mod rules;

use anyhow::{Result, bail, ensure};
use cedar::{Asked, Cedar, Prefix};
use measure::{BATCH, Round, Rounds, Times, clock, median, nanoseconds};
use random::Random;
use rules::{Rule, Shape, What};
use std::time::{Duration, Instant};

const SEED: u64 = 0x00ac_7001;
const SIZES: [usize; 4] = [10, 1_000, 10_000, 100_000];
/// With fewer batches than this, the slowest one in a hundred is not known.
const ENOUGH: usize = 100;
/// Parts that can be named on the command line.
const PARTS: [&str; 3] = ["decide", "compile", "compare"];

/// How long to measure each line.
struct Budget {
    decide: Duration,
    compare: Duration,
    compile: Duration,
}

fn main() -> Result<()> {
    let mut budget =
        Budget { decide: Duration::from_secs(3), compare: Duration::from_secs(5), compile: Duration::from_secs(4) };
    let mut parts = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--quick" => {
                let short = Duration::from_millis(200);
                budget = Budget { decide: short, compare: short, compile: short };
            }
            part if PARTS.contains(&part) => parts.push(argument),
            other => bail!("unknown argument `{other}` (known: --quick, {})", PARTS.join(", ")),
        }
    }
    let load = || std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let chosen = |name: &str| parts.is_empty() || parts.iter().any(|part| part == name);
    println!("seed {SEED:#x}, batches of {BATCH}, a reading of the clock costs {:.0} ns", clock());
    println!("load average before: {}", load());
    if chosen("decide") {
        decisions(&budget)?;
    }
    if chosen("compile") {
        compiling(&budget)?;
    }
    if chosen("compare") {
        comparison(&budget)?;
    }
    println!("load average after: {}", load().trim_end());
    Ok(())
}

fn decisions(budget: &Budget) -> Result<()> {
    println!("| shape | rules | p50 | p99 | quiet p99 | single p50 | p99 | quiet p99 | p50 to 10 rules | allowed |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let manifest = act::manifest();
    for shape in Shape::ALL {
        let mut first = None;
        for size in SIZES {
            let read = act::Text::new(&rules::rules(shape, size)).read()?;
            let (engine, _) = read.engine(&manifest, false)?;
            let requests: Vec<_> = rules::requests(shape, size, &mut Random(SEED)).iter().map(act::request).collect();
            let allowed = requests.iter().filter(|request| engine.decide(request).allowed()).count();
            let mut round = Round::new(&requests);
            let mut times =
                |batch: usize| Rounds::of(budget.decide, || round.time(batch, |request| engine.decide(request)));
            let (Some(batched), Some(single)) = (times(BATCH), times(1)) else { bail!("no times") };
            let p50 = batched.all.rank(50);
            let growth = p50 / *first.get_or_insert(p50);
            println!(
                "| {} | {size} | {} | {} | {} | {} | {} | {} | {growth:.2} | {:.0} % |",
                shape.as_str(),
                time(p50),
                time(batched.all.rank(99)),
                time(batched.quietest.rank(99)),
                time(single.all.rank(50)),
                time(single.all.rank(99)),
                time(single.quietest.rank(99)),
                100.0 * allowed as f64 / requests.len() as f64,
            );
        }
    }
    println!();
    Ok(())
}

fn compiling(budget: &Budget) -> Result<()> {
    println!("| rules | of | read the text | resolve | compile | both | plan | all three |");
    println!("|--:|---|--:|--:|--:|--:|--:|--:|");
    let manifest = act::manifest();
    for size in [1_000, 10_000, 100_000] {
        let mixed = ("a third each", rules::mixed(size));
        let shapes = Shape::ALL.into_iter().map(|shape| (shape.as_str(), rules::rules(shape, size)));
        for (name, rules) in std::iter::once(mixed).chain(shapes) {
            compiled(name, &rules, &manifest, budget.compile)?;
        }
    }
    println!();
    Ok(())
}

fn compiled(name: &str, rules: &[Rule], manifest: &act_policy::Manifest, budget: Duration) -> Result<()> {
    let text = act::Text::new(rules);
    let reading = median(budget / 4, 1, || {
        let start = Instant::now();
        text.read().map(|_| start.elapsed())
    })?;
    let read = text.read()?;
    let (mut resolve, mut compile, mut plan) = (Vec::new(), Vec::new(), Vec::new());
    let both = median(budget / 2, 3, || {
        let (_, steps) = read.engine(manifest, false)?;
        resolve.push(nanoseconds(steps.resolve));
        compile.push(nanoseconds(steps.compile));
        anyhow::Ok(steps.resolve + steps.compile)
    })?;
    let all = median(budget / 2, 1, || {
        let (_, steps) = read.engine(manifest, true)?;
        let lowered = steps.plan.unwrap_or_default();
        plan.push(nanoseconds(lowered));
        anyhow::Ok(steps.resolve + steps.compile + lowered)
    })?;
    let (plan, all) = (time(Times::of(plan).rank(50)), time(all));
    let (resolve, compile) = (Times::of(resolve).rank(50), Times::of(compile).rank(50));
    println!(
        "| {} | {name} | {} | {} | {} | {} | {plan} | {all} |",
        rules.len(),
        time(reading),
        time(resolve),
        time(compile),
        time(both)
    );
    Ok(())
}

fn comparison(budget: &Budget) -> Result<()> {
    println!(
        "| shape | rules | act p50 | p99 | cedar p50 | p99 | cedar/act p50 | p99 | text to ready: act | cedar | cedar/act | batches |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let cases = [
        (Shape::ToolExact, Prefix::In, "tool `==`"),
        (Shape::ToolPrefix, Prefix::In, "tool `in`"),
        (Shape::FileExact, Prefix::In, "fs exact `in`"),
        (Shape::FilePrefix, Prefix::In, "fs prefix `in`"),
        (Shape::FilePrefix, Prefix::Like, "fs prefix `like`"),
    ];
    for (shape, prefix, name) in cases {
        for size in SIZES {
            compare(shape, prefix, name, size, budget.compare)?;
        }
    }
    println!();
    Ok(())
}

/// Both in turns, so that what else the machine does hits both alike.
fn compare(shape: Shape, prefix: Prefix, name: &str, size: usize, budget: Duration) -> Result<()> {
    /// Batches of act in each turn: it is the faster one, and its 99th percentile needs many.
    const OURS: usize = 16;
    let rules = rules::rules(shape, size);
    let manifest = act::manifest();
    let start = Instant::now();
    let (engine, _) = act::Text::new(&rules).read()?.engine(&manifest, false)?;
    let ours = nanoseconds(start.elapsed());
    let Some(policies) = cedar::text(&rules, prefix) else { bail!("{name} cannot be said in cedar") };
    let start = Instant::now();
    let cedar = Cedar::new(&policies)?;
    let theirs = nanoseconds(start.elapsed());
    let drawn: Vec<What> = rules::requests(shape, size, &mut Random(SEED));
    let requests: Vec<_> = drawn.iter().map(act::request).collect();
    let asked = drawn.iter().map(Asked::new).collect::<Result<Vec<_>>>()?;
    let checked = (1_000_000 / size).clamp(BATCH, requests.len());
    for (request, asked) in requests.iter().zip(&asked).take(checked) {
        let verdict = engine.decide(request);
        ensure!(verdict.allowed() == cedar.allows(asked), "{request:?}: act says {verdict:?}, cedar differs");
    }
    let (mut a, mut b) = (Round::new(&requests), Round::new(&asked));
    let (mut times_a, mut times_b) = (Vec::new(), Vec::new());
    let start = Instant::now();
    while start.elapsed() < budget || times_b.is_empty() {
        for _ in 0..OURS {
            times_a.push(a.time(BATCH, |request| engine.decide(request)));
        }
        times_b.push(b.time(BATCH, |asked| cedar.allows(asked)));
    }
    let (a, b) = (Times::of(times_a), Times::of(times_b));
    let (slow, slower) = if b.count() < ENOUGH {
        ("–".into(), "–".into())
    } else {
        (time(b.rank(99)), format!("{:.0}", b.rank(99) / a.rank(99)))
    };
    println!(
        "| {name} | {size} | {} | {} | {} | {slow} | {:.0} | {slower} | {} | {} | {:.1} | {} |",
        time(a.rank(50)),
        time(a.rank(99)),
        time(b.rank(50)),
        b.rank(50) / a.rank(50),
        time(ours),
        time(theirs),
        theirs / ours,
        b.count()
    );
    Ok(())
}

/// With a unit that leaves three digits or so.
fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.2} µs", n / 1e3),
        n if n < 1e9 => format!("{:.1} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}
