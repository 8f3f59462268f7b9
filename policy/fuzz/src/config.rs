use crate::properties::{hold, no_wider};
use crate::requests::{about, fixed};
use crate::world::{ANCHORS, NARROW, WIDE, agent, engine, one_line};
use act_policy::{Config, Decision, Layer, Layers, Reason, Section};

/// Between the files of one input.
const CUT: &str = "\n%%%\n";

/// Configuration files: the user's, then the managed one, then the workspace's; a single one is read as each of them.
pub fn config(text: &str) {
    let mut parts = text.splitn(3, CUT);
    let user = parts.next().unwrap_or_default();
    let managed = parts.next().unwrap_or(user);
    let workspace = parts.next().unwrap_or(user);
    let user = read(user, Layer::User);
    let managed = read(managed, Layer::Managed);
    let workspace = read(workspace, Layer::Workspace);
    if user.is_none() && managed.is_none() && workspace.is_none() {
        return;
    }
    let layers = Layers {
        managed: managed.as_ref().map(|config| &config.section),
        user: user.as_ref().map(|config| &config.section),
        profile: user.as_ref().and_then(|config| config.profiles.first()).map(|profile| &profile.section),
        workspace: workspace.as_ref().map(|config| &config.section.permissions),
        client: Some("c"),
        workspace_root: ANCHORS.workspace,
        ..Layers::default()
    };
    let mut requests = fixed();
    for manifest in [&*WIDE, &*NARROW] {
        let Some(all) = engine(manifest, &layers) else { continue };
        requests.extend(about(all.policy()));
        hold(&all, &requests);
        // The grants of the managed layer are a bound and grant nothing.
        let bound = managed.as_ref().map(|c| Section { policy: c.section.policy.clone(), ..Section::default() });
        let bounded = engine(manifest, &Layers { managed: bound.as_ref(), ..layers });
        let free = engine(manifest, &Layers { managed: None, ..layers });
        if let (Some(bounded), Some(free)) = (bounded, free) {
            no_wider(&bounded, &free, &requests, "the managed layer grants");
        }
        // What it denies, no closer layer relaxes.
        if let Some(alone) =
            engine(manifest, &Layers { managed: layers.managed, client: Some("c"), ..Layers::default() })
        {
            for request in &requests {
                let verdict = alone.decide(request);
                let managed = verdict.rule.and_then(|id| alone.policy().rule(id)).map(|rule| rule.source.layer);
                if verdict.reason == Reason::DeniedByRule && managed == Some(Layer::Managed) {
                    assert_eq!(
                        all.decide(request).decision,
                        Decision::Deny,
                        "a managed deny is relaxed for {request:?}"
                    );
                }
            }
        }
    }
    hold(&agent(&layers), &requests);
}

fn read(text: &str, layer: Layer) -> Option<Config> {
    match Config::parse(text, "f.toml", layer, &ANCHORS) {
        Ok(config) => Some(config),
        Err(error) => {
            one_line(&error.to_string());
            let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
            assert!((1..=lines).contains(&(error.line as usize)), "line {} of {lines}: {error}", error.line);
            None
        }
    }
}
