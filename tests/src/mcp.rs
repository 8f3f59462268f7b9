//! A client of `act run --mcp` over standard input and output, one request at a time.

use crate::{Run, Running, World};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

/// The client; the server ends with it.
#[derive(Debug)]
pub struct Client {
    act: Running,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Client {
    /// Serve a component and shake hands.
    #[track_caller]
    pub fn start(world: &World, component: &Path, flags: &[&str]) -> Self {
        Self::with_capabilities(world, component, flags, json!({}))
    }

    /// The same with what the client says that it can do.
    #[track_caller]
    pub fn with_capabilities(world: &World, component: &Path, flags: &[&str], capabilities: Value) -> Self {
        let flags: Vec<String> = flags.iter().map(|flag| world.fill(flag)).collect();
        Self::serve(world.act(), component, &flags, capabilities)
    }

    /// Serve a component with a command of one's own for `act`.
    #[track_caller]
    pub fn start_command(act: Command, component: &Path, flags: &[&str]) -> Self {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Self::serve(act, component, &flags, json!({}))
    }

    fn serve(mut act: Command, component: &Path, flags: &[String], capabilities: Value) -> Self {
        act.arg("run").arg(component).arg("--mcp").args(flags);
        act.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (act, input, output) = Running::start_with_pipes(&mut act);
        let mut client = Self { act, input: Some(input), output: BufReader::new(output), next: 0 };
        let info = json!({ "name": "test", "version": "1" });
        client.request(
            "initialize",
            json!({ "protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": info }),
        );
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    /// The server's process.
    pub fn pid(&self) -> i32 {
        self.act.pid()
    }

    /// Send one message.
    pub fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Send a request and return its number.
    pub fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// The next message of the server.
    #[track_caller]
    pub fn receive(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the server ended");
        serde_json::from_str(&line).unwrap()
    }

    /// A request and its answer; what else comes meanwhile is passed over.
    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        loop {
            let message = self.receive();
            if message["id"] == json!(id) && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// The names of the tools.
    #[track_caller]
    pub fn tools(&mut self) -> Vec<String> {
        let list = self.request("tools/list", json!({}));
        list["result"]["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The result of a call, in a session if one is named.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value, session: Option<&str>) -> Value {
        let mut params = json!({ "name": tool, "arguments": arguments });
        if let Some(id) = session {
            params["_meta"] = json!({ "std:session-id": id });
        }
        self.request("tools/call", params)["result"].take()
    }

    /// Close the server's input and wait for its end.
    pub fn finish(mut self) -> Run {
        self.input = None;
        self.act.finish()
    }
}
