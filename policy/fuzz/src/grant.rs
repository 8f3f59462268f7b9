use crate::properties::{hold, no_wider};
use crate::requests::{about, fixed};
use crate::world::{ANCHORS, NARROW, OPEN_NARROW, OPEN_WIDE, WIDE, engine, one_line};
use act_policy::{Class, Grants, Layers};

/// Each line is the JSON of one `--grant`: read, merged, resolved with a ceiling, asked.
pub fn grant(text: &str) {
    let mut grants = Grants::default();
    for line in text.lines() {
        match Grants::parse_json(line, &ANCHORS) {
            Ok(more) => grants.merge(more),
            Err(error) => return one_line(&error),
        }
    }
    let mut twice = grants.clone();
    twice.merge(grants.clone());
    for class in [Class::filesystem(), Class::http(), Class::sockets(), Class::credentials()] {
        assert_eq!(twice.entry(&class), grants.entry(&class), "merged with itself, a grant says something else");
    }
    for (manifest, open) in [(&*NARROW, &*OPEN_NARROW), (&*WIDE, &*OPEN_WIDE)] {
        let layers = Layers { grant: Some(&grants), ..Layers::default() };
        let Some(granted) = engine(manifest, &layers) else { continue };
        let mut requests = fixed();
        requests.extend(about(granted.policy()));
        hold(&granted, &requests);
        no_wider(&granted, open, &requests, "a grant passes the ceiling");
    }
}
