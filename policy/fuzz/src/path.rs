use crate::properties::{hold, no_wider, within};
use crate::requests::{below, files};
use crate::world::{engine, one_line};
use act_policy::{
    Access, Capability, Class, Engine, Entry, Flag, Grants, KernelPlan, Layers, Manifest, Matches, Mode, Mounts,
    PathPattern, Request, Rule, Shorthand, Source,
};

/// Most lines of one input.
const MOST: usize = 12;

/// Lines: `^PATTERN` declares it, `-PATTERN` denies it, `=PATH` asks about it, any other allows the pattern. A final `!`
/// leaves writing out.
pub fn path(text: &str) {
    let (mut declared, mut allow, mut deny, mut requests) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for line in text.lines().take(MOST) {
        if let Some(path) = line.strip_prefix('=') {
            files(path.as_bytes(), &mut requests);
            continue;
        }
        let (list, pattern) = match (line.strip_prefix('^'), line.strip_prefix('-')) {
            (Some(pattern), _) => (&mut declared, pattern),
            (_, Some(pattern)) => (&mut deny, pattern),
            _ => (&mut allow, line),
        };
        let (pattern, write) = pattern.strip_suffix('!').map_or((pattern, true), |pattern| (pattern, false));
        let path = match PathPattern::parse(pattern) {
            Ok(path) => path,
            Err(error) => return one_line(&error.to_string()),
        };
        assert_eq!(PathPattern::parse(&path.display()).as_ref(), Ok(&path), "`{pattern}` as text: {}", path.display());
        below(&path, &mut requests);
        list.push(Rule {
            text: pattern.to_owned(),
            source: Source::command_line(""),
            matches: Matches::File { path, write },
        });
    }
    // What a flag does: an allow rule makes the grant a list.
    let flags: Vec<Shorthand> = [(Flag::Allow, &allow), (Flag::Deny, &deny)]
        .into_iter()
        .flat_map(|(flag, rules)| rules.iter().map(move |rule| shorthand(flag, rule)))
        .collect();
    let (allows, denies) = flags.split_at(allow.len());
    let everything = Rule {
        text: "/**".into(),
        source: Source::component(),
        matches: Matches::File { path: PathPattern { head: Vec::new(), tail: String::new() }, write: true },
    };
    let all = manifest(vec![everything]);
    let ceiling = if declared.is_empty() { all.clone() } else { manifest(declared) };
    let open = open();
    let with = |manifest: &Manifest, flags: &[Shorthand]| {
        engine(manifest, &Layers { flags, grant: allow.is_empty().then_some(&open), ..Layers::default() })
    };
    let (Some(both), Some(granted), Some(free)) = (with(&ceiling, &flags), with(&ceiling, allows), with(&all, allows))
    else {
        return;
    };
    hold(&both, &requests);
    no_wider(&both, &granted, &requests, "a deny widens");
    no_wider(&granted, &free, &requests, "a ceiling grants");
    let whole = engine(&ceiling, &Layers { grant: Some(&open), ..Layers::default() });
    if let Some(whole) = whole {
        no_wider(&granted, &whole, &requests, "a grant passes the ceiling");
    }
    let only_denies = engine(&all, &Layers { flags: denies, grant: Some(&open), ..Layers::default() });
    if let Some(only_denies) = only_denies {
        no_wider(&both, &only_denies, &requests, "a deny does not absorb");
    }
    for request in &requests {
        implied(&both, request);
    }
    for rule in &allow {
        stays_in_its_directory(&all, rule, &requests);
    }
    exact(&both);
}

fn shorthand(flag: Flag, rule: &Rule) -> Shorthand {
    Shorthand { flag, token: rule.text.clone(), class: Class::filesystem(), rule: Some(rule.clone()) }
}

fn manifest(rules: Vec<Rule>) -> Manifest {
    let capability = Capability {
        class: Class::filesystem(),
        description: None,
        constraints: Some(rules),
        mounts: Mounts::default(),
        json: "{}".into(),
    };
    Manifest {
        name: "demo".into(),
        version: "1".into(),
        description: None,
        capabilities: vec![capability],
        credentials: Vec::new(),
    }
}

fn open() -> Grants {
    Grants { default: Some(Entry::plain(Mode::Open, Source::built_in())), ..Grants::default() }
}

/// What may be written may be read.
fn implied(engine: &Engine, request: &Request) {
    let Request::File { access: Access::Write, path } = request else { return };
    if engine.decide(request).allowed() {
        for access in [Access::Stat, Access::List, Access::Read] {
            let verdict = engine.decide(&Request::File { access, path: path.clone() });
            assert!(verdict.allowed(), "{} can be written; {access}: {verdict:?}", path.escape_ascii());
        }
    }
}

/// Without `**`, a pattern with a glob matches only as deep as it is written.
fn stays_in_its_directory(all: &Manifest, rule: &Rule, requests: &[Request]) {
    let Matches::File { path: pattern, .. } = &rule.matches else { return };
    if pattern.tail.is_empty() || pattern.tail.contains("**") || pattern.tail.contains(['{', '\\', '[']) {
        return;
    }
    let flags = [shorthand(Flag::Allow, rule)];
    let Some(engine) = engine(all, &Layers { flags: &flags, ..Layers::default() }) else { return };
    let depth = |path: &[u8]| path.split(|byte| *byte == b'/').count() - 1;
    let deep = depth(&pattern.head) + depth(pattern.tail.as_bytes()) + 1;
    for request in requests {
        let Request::File { access: Access::Read, path } = request else { continue };
        if engine.decide(request).allowed() {
            assert_eq!(depth(path), deep, "{} is matched by {}", path.escape_ascii(), pattern.display());
        }
    }
}

/// A subtree that is said to be exact is allowed as a whole.
fn exact(engine: &Engine) {
    let plan = KernelPlan::new(engine);
    for tree in plan.files.iter().filter(|tree| tree.exact) {
        for below in ["", "/new", "/a/b", "/a.db"] {
            let mut path = [tree.path.as_slice(), below.as_bytes()].concat();
            if path.is_empty() {
                path.push(b'/');
            }
            assert!(within(&path, &tree.path));
            for access in [Access::Read, Access::Write] {
                let verdict = engine.decide(&Request::File { access, path: path.clone() });
                let opened = access == Access::Read || tree.write;
                assert!(
                    !opened || verdict.allowed(),
                    "{access} {} is opened as exact: {verdict:?}",
                    path.escape_ascii()
                );
            }
        }
    }
}
