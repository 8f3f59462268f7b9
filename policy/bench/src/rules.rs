//! Rules and requests of each shape, drawn from a seed.

use crate::random::Random;

/// One rule in ten denies.
const DENIES: usize = 10;
/// Distinct requests for one shape and size.
const REQUESTS: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A file.
    FileExact,
    /// A folder with all below it.
    FilePrefix,
    /// `folder/*.ext`
    FileGlob,
    /// A host name.
    Name,
    /// `*.zone`
    Suffix,
    /// An IPv4 range of 256 addresses.
    Range,
    /// `id.tool`
    ToolExact,
    /// `id.*`
    ToolPrefix,
}

impl Shape {
    pub(crate) const ALL: [Self; 8] = [
        Self::FileExact,
        Self::FilePrefix,
        Self::FileGlob,
        Self::Name,
        Self::Suffix,
        Self::Range,
        Self::ToolExact,
        Self::ToolPrefix,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::FileExact => "fs exact",
            Self::FilePrefix => "fs prefix",
            Self::FileGlob => "fs glob",
            Self::Name => "net name",
            Self::Suffix => "net suffix",
            Self::Range => "net range",
            Self::ToolExact => "tool exact",
            Self::ToolPrefix => "tool prefix",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) deny: bool,
    pub(crate) what: What,
}

/// What a rule names, or what a request is about.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A path; in a rule with all below it.
    Path(String),
    /// A glob over paths.
    Glob(String),
    Name(String),
    Suffix(String),
    /// The first three numbers of an address; in a request with the fourth.
    Range([u8; 3]),
    Address([u8; 4]),
    Tool(String, Option<String>),
}

/// The `number`th rule of a shape.
fn rule(shape: Shape, number: usize) -> Rule {
    let deny = number % DENIES == DENIES - 1;
    // A deny of a prefix lies inside the prefix that is allowed by the rule before it.
    let outer = if deny { number - 1 } else { number };
    let (bay, inside) = (number % 61, if deny { "/closed" } else { "" });
    let what = match shape {
        Shape::FileExact => What::Path(format!("/srv/data/bay{bay}/set{number}/file.txt")),
        Shape::FilePrefix => What::Path(format!("/srv/data/bay{}/set{outer}{inside}", outer % 61)),
        Shape::FileGlob => What::Glob(format!("/srv/data/bay{bay}/set{number}/*.txt")),
        Shape::Name => What::Name(format!("host{number}.bay{bay}.example.com")),
        Shape::Suffix if deny => What::Suffix(format!("closed.zone{outer}.example.com")),
        Shape::Suffix => What::Suffix(format!("zone{number}.example.com")),
        // Ten networks of 65,536 ranges each, spread by an odd factor.
        Shape::Range => {
            let spread = (number as u32).wrapping_mul(40_503) % (10 << 16);
            let [_, a, b, c] = spread.to_be_bytes();
            What::Range([20 + a, b, c])
        }
        Shape::ToolExact => What::Tool(format!("component{bay}"), Some(format!("tool{number}"))),
        Shape::ToolPrefix => What::Tool(format!("component{number}"), None),
    };
    Rule { deny, what }
}

pub(crate) fn rules(shape: Shape, count: usize) -> Vec<Rule> {
    (0..count).map(|number| rule(shape, number)).collect()
}

/// A third each of file, network and tool rules.
pub(crate) fn mixed(count: usize) -> Vec<Rule> {
    const SHAPES: [Shape; 6] =
        [Shape::FileExact, Shape::Name, Shape::ToolExact, Shape::FilePrefix, Shape::Range, Shape::ToolPrefix];
    let shapes = SHAPES.into_iter().cycle();
    // Numbered apart, so that each shape has its own denies.
    shapes.enumerate().take(count).map(|(place, shape)| rule(shape, place / SHAPES.len())).collect()
}

/// Requests about rules drawn at random, one half beside what the rule names.
pub(crate) fn requests(shape: Shape, count: usize, random: &mut Random) -> Vec<What> {
    (0..REQUESTS)
        .map(|_| {
            let number = random.below(count);
            let hit = random.below(2) == 0;
            request(rule(shape, number).what, hit, random)
        })
        .collect()
}

fn request(what: What, hit: bool, random: &mut Random) -> What {
    let salt = random.below(1000);
    match what {
        What::Path(path) if path.ends_with("file.txt") => What::Path(if hit { path } else { format!("{path}{salt}") }),
        What::Path(path) if hit => What::Path(format!("{path}/part{salt}/deep/file.txt")),
        What::Path(path) => What::Path(format!("{path}{salt}x/part/deep/file.txt")),
        What::Glob(glob) => {
            What::Path(glob.replace('*', &format!("name{salt}")).replace(".txt", if hit { ".txt" } else { ".bin" }))
        }
        What::Name(name) => What::Name(if hit { name } else { format!("x{salt}{name}") }),
        What::Suffix(suffix) => What::Name(if hit { format!("a{salt}.{suffix}") } else { format!("a{salt}{suffix}") }),
        What::Range([a, b, c]) => What::Address([if hit { a } else { a + 100 }, b, c, (salt % 256) as u8]),
        What::Tool(id, Some(tool)) => What::Tool(id, Some(if hit { tool } else { format!("{tool}x{salt}") })),
        What::Tool(id, None) => What::Tool(if hit { id } else { format!("{id}x") }, Some(format!("tool{salt}"))),
        address @ What::Address(_) => address,
    }
}
