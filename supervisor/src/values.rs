//! JSON for people, CBOR for components.
//!
//! Byte strings appear in JSON as `{"$bytes": "<base64>"}`; any other key that begins with `$` gets one more `$`, so the
//! mapping loses nothing. Encoding is deterministic (RFC 8949 §4.2.1): definite lengths, shortest forms, keys sorted
//! by their encoded bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ciborium::Value as Cbor;
use serde_json::Value as Json;

/// Deepest nesting of a value, in either form.
const MAX_DEPTH: usize = 64;
/// Most bytes of a value that is read, but for a single string.
const MAX_STRUCTURE: usize = 4 << 20;

/// Why a value could not be converted.
#[derive(Debug, thiserror::Error)]
pub enum ValueError {
    /// Nested too deep.
    #[error("nested more than {MAX_DEPTH} deep")]
    Depth,
    /// `$bytes` that is not base64.
    #[error("`$bytes` is not base64")]
    Base64,
    /// A key that is not text has no JSON form.
    #[error("a map key that is not text")]
    Key,
    /// Not CBOR.
    #[error("not CBOR: {0}")]
    Malformed(String),
}

/// JSON → deterministic CBOR.
pub fn to_cbor(json: &Json) -> Result<Vec<u8>, ValueError> {
    let mut out = Vec::new();
    encode(&from_json(json, 0)?, &mut out);
    Ok(out)
}

/// CBOR → JSON.
pub fn from_cbor(bytes: &[u8]) -> Result<Json, ValueError> {
    // One text or byte string is as large as it is; anything else grows many times in memory.
    let string = bytes.first().is_some_and(|byte| matches!(byte >> 5, 2 | 3));
    if bytes.len() > MAX_STRUCTURE && !string {
        return Err(ValueError::Malformed(format!("more than {MAX_STRUCTURE} bytes of lists and maps")));
    }
    let mut rest = bytes;
    let value: Cbor = ciborium::de::from_reader_with_recursion_limit(&mut rest, MAX_DEPTH)
        .map_err(|e| ValueError::Malformed(e.to_string().replace('\n', " ")))?;
    if !rest.is_empty() {
        return Err(ValueError::Malformed(format!("{} bytes after the value", rest.len())));
    }
    to_json(&value, 0)
}

fn from_json(json: &Json, depth: usize) -> Result<Cbor, ValueError> {
    if depth > MAX_DEPTH {
        return Err(ValueError::Depth);
    }
    Ok(match json {
        Json::Null => Cbor::Null,
        Json::Bool(b) => Cbor::Bool(*b),
        Json::Number(n) => match (n.as_u64(), n.as_i64()) {
            (Some(n), _) => Cbor::Integer(n.into()),
            (None, Some(n)) => Cbor::Integer(n.into()),
            (None, None) => Cbor::Float(n.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(s) => Cbor::Text(s.clone()),
        Json::Array(items) => Cbor::Array(items.iter().map(|i| from_json(i, depth + 1)).collect::<Result<_, _>>()?),
        Json::Object(map) => {
            if let (1, Some(Json::String(text))) = (map.len(), map.get("$bytes")) {
                return STANDARD.decode(text).map(Cbor::Bytes).map_err(|_| ValueError::Base64);
            }
            let mut pairs = Vec::with_capacity(map.len());
            for (key, value) in map {
                let key = key.strip_prefix("$$").map_or_else(|| key.clone(), |rest| format!("${rest}"));
                pairs.push((Cbor::Text(key), from_json(value, depth + 1)?));
            }
            Cbor::Map(pairs)
        }
    })
}

fn to_json(value: &Cbor, depth: usize) -> Result<Json, ValueError> {
    if depth > MAX_DEPTH {
        return Err(ValueError::Depth);
    }
    Ok(match value {
        Cbor::Bool(b) => Json::Bool(*b),
        Cbor::Integer(n) => {
            let n = i128::from(*n);
            match (u64::try_from(n), i64::try_from(n)) {
                (Ok(n), _) => n.into(),
                (_, Ok(n)) => n.into(),
                // Below -2⁶³ JSON has the nearest float at best.
                #[expect(clippy::cast_precision_loss, reason = "as said")]
                _ => serde_json::Number::from_f64(n as f64).map_or(Json::Null, Json::Number),
            }
        }
        Cbor::Float(f) => serde_json::Number::from_f64(*f).map_or(Json::Null, Json::Number),
        Cbor::Text(s) => Json::String(s.clone()),
        Cbor::Bytes(b) => serde_json::json!({ "$bytes": STANDARD.encode(b) }),
        Cbor::Tag(_, inner) => to_json(inner, depth + 1)?,
        Cbor::Array(items) => Json::Array(items.iter().map(|i| to_json(i, depth + 1)).collect::<Result<_, _>>()?),
        Cbor::Map(pairs) => {
            let mut map = serde_json::Map::with_capacity(pairs.len());
            for (key, value) in pairs {
                let Cbor::Text(key) = key else { return Err(ValueError::Key) };
                let key = if key.starts_with('$') { format!("${key}") } else { key.clone() };
                map.insert(key, to_json(value, depth + 1)?);
            }
            Json::Object(map)
        }
        _ => Json::Null,
    })
}

fn head(major: u8, n: u64, out: &mut Vec<u8>) {
    let major = major << 5;
    match n {
        0..24 => out.push(major | n as u8),
        24..0x100 => out.extend([major | 0x18, n as u8]),
        0x100..0x1_0000 => {
            out.push(major | 0x19);
            out.extend((n as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(major | 0x1a);
            out.extend((n as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 0x1b);
            out.extend(n.to_be_bytes());
        }
    }
}

fn encode(value: &Cbor, out: &mut Vec<u8>) {
    match value {
        Cbor::Bool(b) => out.push(if *b { 0xf5 } else { 0xf4 }),
        Cbor::Integer(n) => {
            let n = i128::from(*n);
            // ciborium's integers are those of CBOR: from -2⁶⁴ to 2⁶⁴-1, so both casts are exact.
            if n >= 0 { head(0, n as u64, out) } else { head(1, (-1 - n) as u64, out) }
        }
        Cbor::Float(f) => encode_float(*f, out),
        Cbor::Text(s) => {
            head(3, s.len() as u64, out);
            out.extend_from_slice(s.as_bytes());
        }
        Cbor::Bytes(b) => {
            head(2, b.len() as u64, out);
            out.extend_from_slice(b);
        }
        Cbor::Array(items) => {
            head(4, items.len() as u64, out);
            for item in items {
                encode(item, out);
            }
        }
        Cbor::Map(pairs) => {
            head(5, pairs.len() as u64, out);
            let mut encoded: Vec<(Vec<u8>, &Cbor)> = pairs
                .iter()
                .map(|(key, value)| {
                    let mut bytes = Vec::new();
                    encode(key, &mut bytes);
                    (bytes, value)
                })
                .collect();
            encoded.sort_by(|a, b| a.0.cmp(&b.0));
            for (key, value) in encoded {
                out.extend_from_slice(&key);
                encode(value, out);
            }
        }
        Cbor::Tag(tag, inner) => {
            head(6, *tag, out);
            encode(inner, out);
        }
        _ => out.push(0xf6),
    }
}

/// The shortest of the three widths that holds the value (RFC 8949 §4.2.1). Half precision is tried by decoding.
fn encode_float(f: f64, out: &mut Vec<u8>) {
    if f.is_nan() {
        out.extend([0xf9, 0x7e, 0x00]);
        return;
    }
    let single = f as f32;
    if f64::from(single).to_bits() != f.to_bits() {
        out.push(0xfb);
        out.extend(f.to_be_bytes());
        return;
    }
    if let Some(half) = half(single) {
        out.push(0xf9);
        out.extend(half.to_be_bytes());
    } else {
        out.push(0xfa);
        out.extend(single.to_be_bytes());
    }
}

/// The IEEE 754 binary16 form of a value that has one exactly.
fn half(f: f32) -> Option<u16> {
    let bits = f.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let exponent = ((bits >> 23) & 0xff).cast_signed() - 127;
    let mantissa = bits & 0x007f_ffff;
    match exponent {
        128 if mantissa == 0 => Some(sign | 0x7c00),
        -127 if mantissa == 0 => Some(sign),
        -14..=15 if mantissa.trailing_zeros() >= 13 => {
            Some(sign | (((exponent + 15) as u16) << 10) | (mantissa >> 13) as u16)
        }
        -24..=-15 => {
            let full = mantissa | 0x0080_0000;
            let shift = (-exponent - 1) as u32;
            (full.trailing_zeros() >= shift).then(|| sign | (full >> shift) as u16)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn deterministic_encoding() {
        for (json, expected) in [
            (json!({"path": 1, "a": 2, "bb": 3}), "a361610262626203647061746801"),
            (json!(1.5), "f93e00"),
            (json!(100_000.5), "fa47c35040"),
            (json!(1.1), "fb3ff199999999999a"),
            (json!(5.960_464_477_539_063e-8), "f90001"),
            (json!(6.103_515_625e-5), "f90400"),
            (json!(65504.0), "f97bff"),
            (json!(-1), "20"),
            (json!(u64::MAX), "1bffffffffffffffff"),
            (json!({"$bytes": "AQI="}), "420102"),
            (json!({"$$x": null}), "a1622478f6"),
        ] {
            let bytes = to_cbor(&json).unwrap();
            assert_eq!(crate::component::hex(&bytes), expected, "{json}");
            assert_eq!(from_cbor(&bytes).unwrap(), json);
        }
    }

    #[test]
    fn hostile_cbor_is_an_error() {
        let deep = vec![0x81u8; 100_000];
        for bytes in [&b""[..], b"\xff", b"\x00\x00", b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff", b"\xa1\x01\x02", &deep] {
            assert!(from_cbor(bytes).is_err(), "{:?}", &bytes[..bytes.len().min(10)]);
        }
    }
}
