use crate::properties::{hold, no_wider};
use crate::requests::{about, fixed};
use crate::world::{ANCHORS, NARROW, OPEN_NARROW, WIDE, engine, one_line};
use act_policy::{Access, Engine, Flag, Layers, Request, Shorthand};

/// The text as the value of both flags, alone and as a rule of each class.
pub fn shorthand(text: &str) {
    for class in ["", "fs=", "http=", "sockets=", "creds=", "db:drop="] {
        let token = format!("{class}{text}");
        let [allow, deny] = [Flag::Allow, Flag::Deny].map(|flag| {
            Shorthand::parse(flag, &token, &ANCHORS).inspect_err(|error| one_line(&error.to_string())).ok()
        });
        let Some(deny) = deny else {
            assert!(allow.is_none(), "`{token}` can be allowed and not denied");
            continue;
        };
        let Some(allow) = allow else { continue };
        let class = allow.class.clone();
        let with = |flags: &[Shorthand]| engine(&WIDE, &Layers { flags, ..Layers::default() });
        let (Some(allowed), Some(both)) = (with(std::slice::from_ref(&allow)), with(&[allow.clone(), deny.clone()]))
        else {
            continue;
        };
        let mut requests = fixed();
        requests.extend(about(allowed.policy()));
        requests.retain(|request| Engine::class_of(request) == class);
        hold(&allowed, &requests);
        hold(&both, &requests);
        absorbs(&both, &requests);
        let layers = Layers { flags: std::slice::from_ref(&allow), ..Layers::default() };
        if let Some(inside) = engine(&NARROW, &layers) {
            no_wider(&inside, &OPEN_NARROW, &requests, "a flag passes the ceiling");
        }
    }
}

/// What is both allowed and denied is denied. Only the way to it can be looked at, and a name be looked up where the
/// deny speaks of a part of its ports.
fn absorbs(both: &Engine, requests: &[Request]) {
    for request in requests {
        let way = matches!(request, Request::File { access: Access::Stat, .. } | Request::Lookup { .. });
        let verdict = both.decide(request);
        assert!(way || !verdict.allowed(), "{request:?} is allowed and denied by one rule: {verdict:?}");
    }
}
