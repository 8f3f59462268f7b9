//! Bounds on what the child tells: as the guest program keeps them, and held against one that does not.

use act_policy::Request;
use act_wire::ContentPart;

/// Longest path, host or key, in bytes.
const LONGEST: usize = 4096;
/// Longest class, method or scheme.
const WORD: usize = 256;
/// Most names of an address, and most arguments of an action.
const COUNT: usize = 64;
/// Most bytes of all arguments of an action.
const ARGUMENTS: usize = 256 << 10;
/// What a part of the output, or an entry of its metadata, weighs besides its bytes.
const EACH: usize = 64;

/// Whether a request is one that the guest program could have made.
pub(super) fn fits(request: &Request) -> bool {
    match request {
        Request::File { path, .. } => path.len() <= 2 * LONGEST,
        Request::Connect { names, .. } => names.len() <= COUNT && names.iter().all(|name| name.len() <= LONGEST),
        Request::Lookup { class, host } => class.as_str().len() <= WORD && host.len() <= LONGEST,
        Request::Http { method, scheme, host, .. } => {
            method.len() <= WORD && scheme.len() <= WORD && host.len() <= LONGEST
        }
        Request::Credential { key } => key.len() <= LONGEST,
        Request::Consent { class, key, arguments } => {
            let bytes: usize = arguments.iter().map(|(name, value)| name.len() + value.len()).sum();
            class.len() <= WORD && key.len() <= LONGEST && arguments.len() <= COUNT && bytes <= ARGUMENTS
        }
        Request::Bind { .. } | Request::Listen { .. } => true,
        // A component does nothing of the kind.
        Request::Net { .. } | Request::Tool { .. } | Request::Spawn { .. } | Request::Ui { .. } => false,
    }
}

/// What a part of the output weighs.
pub(super) fn weight(part: &ContentPart) -> usize {
    let metadata: usize = part.metadata.iter().map(|(key, value)| key.len() + value.len() + EACH).sum();
    EACH + part.data.len() + part.mime_type.as_ref().map_or(0, String::len) + metadata
}
