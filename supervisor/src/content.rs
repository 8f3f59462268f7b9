//! What a part of a tool's output is, by its MIME type.

use crate::values;
use act_wire::ContentPart;
use serde_json::Value;

/// The type of a part that names none.
const DEFAULT_TYPE: &str = "application/cbor";

/// A part, read by its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Text, JSON or XML, or a bare string in CBOR. What is not UTF-8 is replaced.
    Text(String),
    /// Any other value in CBOR.
    Value(Value),
    /// The bytes mean nothing here.
    Binary,
}

/// The MIME type as the component wrote it.
pub fn mime_type(part: &ContentPart) -> &str {
    part.mime_type.as_deref().unwrap_or(DEFAULT_TYPE)
}

/// The type without its parameters, in lower case.
pub fn essence(mime: &str) -> String {
    mime.split(';').next().unwrap_or(mime).trim().to_ascii_lowercase()
}

/// Read a part.
pub fn read(part: &ContentPart) -> Content {
    let essence = essence(mime_type(part));
    let textual = essence.starts_with("text/")
        || ["application/json", "application/xml"].contains(&essence.as_str())
        || essence.ends_with("+json")
        || essence.ends_with("+xml");
    if textual {
        return Content::Text(String::from_utf8_lossy(&part.data).into_owned());
    }
    if essence != DEFAULT_TYPE {
        return Content::Binary;
    }
    match values::from_cbor(&part.data) {
        Ok(Value::String(text)) => Content::Text(text),
        Ok(value) => Content::Value(value),
        Err(_) => Content::Binary,
    }
}
