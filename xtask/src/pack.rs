//! Writes a component's manifest: the custom section `act:component`, a CBOR map.
//!
//! The encoding is deterministic (RFC 8949 §4.2): shortest forms, definite lengths, keys in the order of their
//! encoded bytes. Only the top level of the component is looked at.

use anyhow::{Context as _, Result, bail, ensure};
use ciborium::Value;
use serde_json::Value as Json;

/// Name of the custom section that holds the manifest.
pub const SECTION: &str = "act:component";

/// Every wasm binary starts with these four bytes and four more of version and layer.
const MAGIC: &[u8] = b"\0asm";
const HEADER: usize = 8;

/// What to do with a manifest that the component has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Take it out.
    Replace,
    /// Leave it, so that there are two. Only a test of a broken component wants this.
    Keep,
}

/// Returns `component` with `section` as its manifest.
pub fn pack(component: &[u8], section: &[u8], existing: Existing) -> Result<Vec<u8>> {
    ensure!(component.starts_with(MAGIC) && component.len() >= HEADER, "not a wasm binary");
    let (header, mut rest) = component.split_at(HEADER);
    let mut out = header.to_vec();
    while let Some((id, after)) = rest.split_first() {
        let (size, body) = leb128(after).context("section size")?;
        ensure!(size <= body.len(), "a section ends after the file");
        let (content, next) = body.split_at(size);
        if existing == Existing::Keep || *id != 0 || name(content) != Some(SECTION.as_bytes()) {
            out.extend_from_slice(rest.get(..rest.len() - next.len()).unwrap_or_default());
        }
        rest = next;
    }
    let mut content = Vec::new();
    write_leb128(SECTION.len(), &mut content);
    content.extend_from_slice(SECTION.as_bytes());
    content.extend_from_slice(section);
    out.push(0);
    write_leb128(content.len(), &mut out);
    out.extend_from_slice(&content);
    Ok(out)
}

/// Encodes a manifest as it is.
pub fn encode(manifest: &Json) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    ciborium::into_writer(&canonical(manifest)?, &mut out).context("encode the manifest")?;
    Ok(out)
}

/// Reads an `act.toml`. What authors write as `allow` is called `constraints` in the section.
pub fn from_toml(text: &str) -> Result<Json> {
    let mut manifest: Json = toml::from_str(text).context("act.toml")?;
    let capabilities = manifest.pointer_mut("/std/capabilities").and_then(Json::as_object_mut);
    for capability in capabilities.into_iter().flat_map(serde_json::Map::values_mut) {
        if let Some(fields) = capability.as_object_mut()
            && let Some(allow) = fields.remove("allow")
        {
            fields.insert("constraints".to_owned(), allow);
        }
    }
    Ok(manifest)
}

fn canonical(json: &Json) -> Result<Value> {
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(items) => Value::Array(items.iter().map(canonical).collect::<Result<_>>()?),
        Json::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(value), ..) => Value::Integer(value.into()),
            (_, Some(value), _) => Value::Integer(value.into()),
            (.., Some(value)) => Value::Float(value),
            _ => bail!("number `{number}` has no CBOR form"),
        },
        Json::Object(fields) => {
            let mut entries: Vec<(&String, &Json)> = fields.iter().collect();
            // The length comes first in an encoded text key, so this is the order of the encoded bytes.
            entries.sort_by_key(|(key, _)| (key.len(), key.as_bytes()));
            let entries = entries.into_iter().map(|(key, value)| Ok((Value::Text(key.clone()), canonical(value)?)));
            Value::Map(entries.collect::<Result<_>>()?)
        }
    })
}

/// The name that a custom section starts with.
fn name(content: &[u8]) -> Option<&[u8]> {
    let (length, rest) = leb128(content).ok()?;
    rest.get(..length)
}

fn leb128(bytes: &[u8]) -> Result<(usize, &[u8])> {
    let mut value = 0u64;
    for (n, byte) in bytes.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * n);
        if byte & 0x80 == 0 {
            let rest = bytes.get(n + 1..).unwrap_or_default();
            return Ok((usize::try_from(value).context("number too large")?, rest));
        }
    }
    bail!("a number is cut off or too long")
}

fn write_leb128(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    #[test]
    fn keys_are_in_the_order_of_their_encoded_bytes() -> Result<()> {
        let bytes = encode(&json!({ "std": { "version": "1", "name": "x", "n": 24 } }))?;
        assert_eq!(bytes, b"\xa1\x63std\xa3\x61n\x18\x18\x64name\x61x\x67version\x611");
        Ok(())
    }

    #[test]
    fn packing_replaces_or_keeps() -> Result<()> {
        let count = |bytes: &[u8]| bytes.windows(SECTION.len()).filter(|w| *w == SECTION.as_bytes()).count();
        let once = pack(EMPTY, b"\xa0", Existing::Replace)?;
        let replaced = pack(&once, b"\xa1", Existing::Replace)?;
        let doubled = pack(&once, b"\xa1", Existing::Keep)?;
        assert_eq!((count(&once), count(&replaced), count(&doubled)), (1, 1, 2));
        assert!(replaced.ends_with(b"\xa1"));
        Ok(())
    }

    #[test]
    fn other_sections_stay_as_they_are() -> Result<()> {
        let other = [EMPTY, b"\0\x05\x04name".as_slice()].concat();
        let packed = pack(&other, &[7; 200], Existing::Replace)?;
        assert!(packed.starts_with(&other));
        // 1 id, 2 size, 1 length, 13 name, 200 content
        assert_eq!(packed.len(), other.len() + 217);
        Ok(())
    }

    #[test]
    fn broken_input_is_refused() {
        for bytes in [b"".as_slice(), b"\0asm", b"\0asm\x0d\0\x01\0\0", b"\0asm\x0d\0\x01\0\0\x09ab"] {
            assert!(pack(bytes, b"", Existing::Replace).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn toml_allow_becomes_constraints() -> Result<()> {
        let manifest = from_toml("[[std.capabilities.'wasi:http'.allow]]\nhost = '*'\n")?;
        assert_eq!(
            manifest,
            json!({ "std": { "capabilities": { "wasi:http": { "constraints": [{ "host": "*" }] } } } })
        );
        Ok(())
    }
}
