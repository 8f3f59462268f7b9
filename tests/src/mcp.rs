//! A client of the Model Context Protocol.

use crate::run::{Run, Running};
use crate::world::World;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

/// A client of `act run --mcp`, one request at a time.
#[derive(Debug)]
pub struct Client {
    act: Running,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Client {
    /// Serve `component` with these flags.
    pub fn start(world: &World, component: &Path, flags: &[&str]) -> Self {
        Self::start_command(world.act(), component, flags)
    }

    /// The same by a command of [`World::act`] whose environment was added to.
    pub fn start_command(mut act: Command, component: &Path, flags: &[&str]) -> Self {
        act.arg("run").arg(component).arg("--mcp").args(flags);
        act.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (act, input, output) = Running::start_with_pipes(&mut act);
        let mut client = Self { act, input: Some(input), output: BufReader::new(output), next: 0 };
        let info = json!({ "name": "test", "version": "1" });
        client
            .request("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info }));
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    /// Process id of `act`.
    pub fn pid(&self) -> i32 {
        self.act.pid()
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the server ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == json!(id) {
                return message;
            }
        }
    }

    /// The names of the tools.
    pub fn tools(&mut self) -> Vec<String> {
        let list = self.request("tools/list", json!({}));
        list["result"]["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The result of a call, in a session if one is named.
    pub fn call(&mut self, tool: &str, arguments: Value, session: Option<&str>) -> Value {
        let mut params = json!({ "name": tool, "arguments": arguments });
        if let Some(id) = session {
            params["_meta"] = json!({ "std:session-id": id });
        }
        self.request("tools/call", params)["result"].take()
    }

    /// Close the input, and wait for the end.
    pub fn finish(mut self) -> Run {
        self.input = None;
        self.act.finish()
    }
}
