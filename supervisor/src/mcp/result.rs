//! Tools and results of the component as the protocol has them.

use super::queue::Answer;
use crate::content::{self, Content};
use crate::session::Output;
use crate::tools::hint;
use act_wire::ContentPart;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::ErrorData;
use rmcp::model::{
    AudioContent, CallToolResult, ContentBlock, EmbeddedResource, ImageContent, MetaObject, ResourceContents,
    TextContent, Tool, ToolAnnotations,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Key of the MIME type that a component gave to a part which became text.
const MIME_TYPE: &str = "dev.actcore/mime-type";
/// Key of the kind of a tool's error.
const ERROR_KIND: &str = "dev.actcore/error-kind";
/// What the model is told of a denial: what to do, and nothing of the policy.
const DENIED: &str = "The operator's policy refused an operation of this call: do not repeat it, but go on without it or \
                      ask the operator for access.";

/// A tool. A schema that is no object cannot be shown and is refused when the tool is called.
pub(super) fn tool(tool: &act_wire::Tool) -> Tool {
    let text = &tool.parameters_schema;
    let fits = text.len() <= crate::schema::MAX_SCHEMA;
    let mut schema: Map<String, Value> = if fits { serde_json::from_str(text).unwrap_or_default() } else { Map::new() };
    // Clients refuse a whole list for one schema that does not say so.
    schema.entry("type").or_insert_with(|| json!("object"));
    let annotations = ToolAnnotations::from_raw(
        None,
        hint(tool, "std:read-only"),
        hint(tool, "std:destructive"),
        hint(tool, "std:idempotent"),
        None,
    );
    let told = annotations != ToolAnnotations::default();
    let mut shown = Tool::new(tool.name.clone(), tool.description.clone(), Arc::new(schema));
    shown.annotations = told.then_some(annotations);
    shown
}

/// The result of a call, or the protocol error for a tool that there is not.
pub(super) fn call(answer: Answer) -> Result<CallToolResult, ErrorData> {
    let (Output { parts, error }, denied) = match answer {
        Answer::Output { output, denied } => (output, denied),
        Answer::Unknown(message) => return Err(ErrorData::invalid_params(message, None)),
    };
    let mut blocks: Vec<ContentBlock> = parts.iter().enumerate().map(|(index, part)| block(index, part)).collect();
    let Some(error) = error else {
        let mut result = CallToolResult::success(blocks);
        if let [part] = parts.as_slice() {
            result.structured_content = object(part);
        }
        return Ok(result);
    };
    blocks.push(ContentBlock::text(if error.message.is_empty() { &error.kind } else { &error.message }));
    if denied {
        blocks.push(ContentBlock::text(DENIED));
    }
    let mut result = CallToolResult::error(blocks);
    result.meta = Some(meta(ERROR_KIND, &error.kind));
    Ok(result)
}

fn meta(key: &str, value: &str) -> MetaObject {
    let mut map = Map::new();
    map.insert(key.to_owned(), json!(value));
    MetaObject(map)
}

/// A part: text as text, pictures and sound as such, all else as an embedded resource.
fn block(index: usize, part: &ContentPart) -> ContentBlock {
    let mime = content::mime_type(part);
    let text = match content::read(part) {
        Content::Text(text) => text,
        Content::Value(value) => value.to_string(),
        Content::Binary => {
            let (data, essence) = (STANDARD.encode(&part.data), content::essence(mime));
            return match essence.split('/').next() {
                Some("image") => ContentBlock::Image(ImageContent::new(data, essence)),
                Some("audio") => ContentBlock::Audio(AudioContent::new(data, essence)),
                // The address only tells the parts of one result apart; it cannot be read again.
                _ => ContentBlock::Resource(EmbeddedResource::new(
                    ResourceContents::blob(data, format!("act:part/{index}")).with_mime_type(mime),
                )),
            };
        }
    };
    ContentBlock::Text(TextContent::new(text).with_meta(meta(MIME_TYPE, mime)))
}

/// The part as a JSON object, if it is one.
fn object(part: &ContentPart) -> Option<Value> {
    let value = match content::read(part) {
        Content::Value(value) => value,
        Content::Text(text) if content::essence(content::mime_type(part)) == "application/json" => {
            serde_json::from_str(&text).ok()?
        }
        Content::Text(_) | Content::Binary => return None,
    };
    value.is_object().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values;
    use act_wire::GuestError;

    fn part(data: &[u8], mime: Option<&str>) -> ContentPart {
        ContentPart { data: data.to_vec(), mime_type: mime.map(str::to_owned), metadata: Vec::new() }
    }

    fn shown(parts: Vec<ContentPart>, error: Option<(&str, &str)>, denied: bool) -> Value {
        let error = error.map(|(kind, message)| GuestError { kind: kind.into(), message: message.into() });
        serde_json::to_value(call(Answer::Output { output: Output { parts, error }, denied }).unwrap()).unwrap()
    }

    #[test]
    fn parts_become_blocks_by_type() {
        let text = |text: &str, mime: &str| json!({"type": "text", "text": text, "_meta": {MIME_TYPE: mime}});
        let resource = |mime: &str, blob: &str| json!({"uri": "act:part/0", "mimeType": mime, "blob": blob});
        for (data, mime, expected) in [
            (&b"hi"[..], Some("text/plain; charset=utf-8"), text("hi", "text/plain; charset=utf-8")),
            (b"\x62hi", None, text("hi", "application/cbor")),
            (b"\x82\x01\x02", None, text("[1,2]", "application/cbor")),
            (b"<svg/>", Some("image/svg+xml"), text("<svg/>", "image/svg+xml")),
            (b"\xff\xfe", Some("IMAGE/png; a=b"), json!({"type": "image", "data": "//4=", "mimeType": "image/png"})),
            (b"\xff", Some("audio/wav"), json!({"type": "audio", "data": "/w==", "mimeType": "audio/wav"})),
            (b"\xff", Some("x/y"), json!({"type": "resource", "resource": resource("x/y", "/w==")})),
            (b"\xff", None, json!({"type": "resource", "resource": resource("application/cbor", "/w==")})),
        ] {
            let result = shown(vec![part(data, mime)], None, false);
            assert_eq!(result["content"], json!([expected]), "{mime:?}");
            assert_eq!(result["isError"], json!(false));
        }
    }

    #[test]
    fn one_object_is_structured_content() {
        let object = values::to_cbor(&json!({"a": 1})).unwrap();
        for (parts, expected) in [
            (vec![part(&object, None)], json!({"a": 1})),
            (vec![part(b"{\"a\": 1}", Some("application/json"))], json!({"a": 1})),
            (vec![part(b"{\"a\": 1}", Some("text/plain"))], Value::Null),
            (vec![part(b"[1]", Some("application/json"))], Value::Null),
            (vec![part(b"{", Some("application/json"))], Value::Null),
            (vec![part(&object, None), part(&object, None)], Value::Null),
            (Vec::new(), Value::Null),
        ] {
            assert_eq!(shown(parts.clone(), None, false)["structuredContent"], expected, "{parts:?}");
        }
    }

    #[test]
    fn errors_tell_their_kind_and_a_denial_what_to_do() {
        let failed = shown(vec![part(b"half", Some("text/plain"))], Some(("std:internal", "no")), false);
        assert_eq!(failed["isError"], json!(true));
        assert_eq!(failed["_meta"], json!({ERROR_KIND: "std:internal"}));
        assert_eq!(failed["content"][0]["text"], json!("half"));
        assert_eq!(failed["content"][1]["text"], json!("no"));
        assert_eq!(failed["content"].as_array().map(Vec::len), Some(2));
        let denied = shown(Vec::new(), Some(("std:internal", "")), true);
        assert_eq!(denied["content"][0]["text"], json!("std:internal"));
        assert_eq!(denied["content"][1]["text"], json!(DENIED));
        assert!(call(Answer::Unknown("no tool `x`".into())).is_err());
    }

    #[test]
    fn tools_carry_schema_and_hints() {
        let make = |schema: &str, metadata: Vec<(String, Vec<u8>)>| {
            let tool = act_wire::Tool {
                name: "t".into(),
                description: "d".into(),
                parameters_schema: schema.into(),
                metadata,
            };
            serde_json::to_value(super::tool(&tool)).unwrap()
        };
        let read_only = vec![("std:read-only".to_owned(), vec![0xf5]), ("std:destructive".to_owned(), vec![0x01])];
        let shown = make(r#"{"type":"object","x-kept":1}"#, read_only);
        assert_eq!(shown["inputSchema"], json!({"type": "object", "x-kept": 1}));
        assert_eq!(shown["annotations"], json!({"readOnlyHint": true}));
        for schema in ["", "[]", "{}"] {
            let shown = make(schema, Vec::new());
            assert_eq!(shown["inputSchema"], json!({"type": "object"}), "{schema}");
            assert_eq!(shown.get("annotations"), None);
        }
    }
}
