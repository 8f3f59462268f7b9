//! Fixture: files, sockets and HTTP over WASI 0.3. It has no standard library calls that reach the host.

mod fs;
mod http;
mod net;

mod bindings {
    #![allow(missing_docs)]
    wit_bindgen::generate!({ path: "wit", world: "component-world", generate_all });
    export!(Component with_types_in self);
    use super::Component;
}

use bindings::act::core::types::{Error, LocalizedString};
use bindings::act::tools::types::{ContentPart, ListToolsResponse, ToolDefinition, ToolEvent};
use bindings::exports::act::tools::tool_provider::{Guest, ToolResult};
use serde_json::{Value, json};

type Metadata = Vec<(String, Vec<u8>)>;

struct Component;

/// Name, description and the arguments, which are required strings.
const TOOLS: &[(&str, &str, &[&str])] = &[
    ("preopens", "The guest paths of the preopened directories, one a line", &[]),
    ("read_file", "Read a file", &["path"]),
    ("write_file", "Replace a file", &["path", "text"]),
    ("append", "Append to a file", &["path", "text"]),
    ("list_dir", "The sorted names in a directory, one a line", &["path"]),
    ("stat", "Type, size and link count of a path", &["path"]),
    ("mkdir", "Make a directory", &["path"]),
    ("unlink", "Remove a file", &["path"]),
    ("rename", "Rename", &["from", "to"]),
    ("symlink", "Make a symbolic link", &["target", "link"]),
    ("hardlink", "Make a hard link", &["from", "to"]),
    ("tcp", "Connect to a.b.c.d:port, send, return the first answer", &["address", "send"]),
    ("resolve", "The addresses of a name, one a line", &["name"]),
    ("fetch", "One request, as in the fixture `fetch`", &["url", "method", "body", "follow", "times"]),
    ("duplex", "Send a body piece by piece, each one after the answer to the one before", &["url", "pieces"]),
    ("size", "How many bytes the body of a response has", &["url"]),
    ("many", "Requests at the same time; how many were answered with 200", &["url", "count"]),
];

async fn call(name: &str, arguments: &Value) -> Result<String, String> {
    let text = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default();
    match name {
        "preopens" => Ok(fs::preopens()),
        "read_file" => fs::read(text("path")).await,
        "write_file" => fs::write(text("path"), text("text")).await,
        "append" => fs::append(text("path"), text("text")).await,
        "list_dir" => fs::list(text("path")).await,
        "stat" => fs::stat(text("path")).await,
        "mkdir" => fs::mkdir(text("path")).await,
        "unlink" => fs::unlink(text("path")).await,
        "rename" => fs::rename(text("from"), text("to")).await,
        "symlink" => fs::symlink(text("target"), text("link")).await,
        "hardlink" => fs::hard_link(text("from"), text("to")).await,
        "tcp" => net::tcp(text("address"), text("send")).await,
        "resolve" => net::resolve(text("name")).await,
        "fetch" => http::fetch(text("url"), text("method"), text("body"), text("follow"), text("times")).await,
        "duplex" => http::duplex(text("url"), text("pieces")).await,
        "size" => http::size(text("url")).await,
        "many" => http::many(text("url"), text("count")).await,
        _ => Err(format!("no tool `{name}`")),
    }
}

fn definition((name, description, arguments): &(&str, &str, &[&str])) -> ToolDefinition {
    let properties: serde_json::Map<String, Value> =
        arguments.iter().map(|key| ((*key).to_owned(), json!({ "type": "string" }))).collect();
    ToolDefinition {
        name: (*name).to_owned(),
        description: LocalizedString::Plain((*description).to_owned()),
        parameters_schema: json!({ "type": "object", "properties": properties, "required": arguments }).to_string(),
        metadata: Vec::new(),
    }
}

fn event(outcome: Result<String, String>) -> ToolEvent {
    match outcome {
        Ok(text) => ToolEvent::Content(ContentPart {
            data: text.into_bytes(),
            mime_type: Some("text/plain".to_owned()),
            metadata: Vec::new(),
        }),
        Err(message) => ToolEvent::Error(Error {
            kind: "std:internal".to_owned(),
            message: LocalizedString::Plain(message),
            metadata: Vec::new(),
        }),
    }
}

impl Guest for Component {
    async fn list_tools(_metadata: Metadata) -> Result<ListToolsResponse, Error> {
        Ok(ListToolsResponse { metadata: Vec::new(), tools: TOOLS.iter().map(definition).collect() })
    }

    async fn call_tool(name: String, arguments: Vec<u8>, _metadata: Metadata) -> ToolResult {
        let outcome = match ciborium::from_reader::<Value, _>(arguments.as_slice()) {
            Ok(arguments) => call(&name, &arguments).await,
            Err(error) => Err(format!("arguments: {error}")),
        };
        ToolResult::Immediate(vec![event(outcome)])
    }
}

/// The name of the host's error code as WIT spells it, as in the fixture `files`: `ErrorCode::NoEntry` → `no-entry`.
fn error(code: impl core::fmt::Debug) -> String {
    let text = format!("{code:?}");
    let mut name = String::new();
    for letter in text.strip_prefix("ErrorCode::").unwrap_or(&text).chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}
