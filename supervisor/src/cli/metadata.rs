//! Metadata of calls on the command line.

use crate::exit::Failure;
use crate::values;
use act_policy::escape;
use serde_json::{Map, Value};
use std::io::Read as _;
use std::path::PathBuf;

/// Most bytes of a metadata file.
const MAX_METADATA: u64 = 1 << 20;

/// Metadata that goes with every call.
#[derive(clap::Args, Debug)]
pub(super) struct MetadataArgs {
    /// Metadata for the call, as text. Repeatable
    #[arg(short = 'm', long, value_name = "KEY=VALUE")]
    metadata: Vec<String>,
    /// Metadata for the call, as a JSON object
    #[arg(long, value_name = "JSON")]
    metadata_json: Option<String>,
    /// Metadata for the call, from a file with a JSON object
    #[arg(long, value_name = "FILE")]
    metadata_file: Option<PathBuf>,
}

impl MetadataArgs {
    /// Keys with values in CBOR: from the profile, then from a file, from JSON, from single pairs; a later one replaces an
    /// earlier key.
    pub(super) fn encode(&self, profile: &[(String, String)]) -> Result<Vec<(String, Vec<u8>)>, Failure> {
        let mut all = Map::new();
        for (key, json) in profile {
            let value =
                serde_json::from_str(json).map_err(|e| Failure::usage(format!("metadata `{}`: {e}", escape(key))))?;
            all.insert(key.clone(), value);
        }
        if let Some(path) = &self.metadata_file {
            let shown = escape(&path.display().to_string());
            let mut text = String::new();
            std::fs::File::open(path)
                .and_then(|file| file.take(MAX_METADATA).read_to_string(&mut text))
                .map_err(|e| Failure::usage(format!("--metadata-file {shown}: {e}")))?;
            all.extend(parse_object(&format!("--metadata-file {shown}"), &text)?);
        }
        if let Some(text) = &self.metadata_json {
            all.extend(parse_object("--metadata-json", text)?);
        }
        for pair in &self.metadata {
            let (key, value) = pair
                .split_once('=')
                .filter(|(key, _)| !key.is_empty())
                .ok_or_else(|| Failure::usage(format!("--metadata '{}': expected KEY=VALUE", escape(pair))))?;
            all.insert(key.to_owned(), Value::String(value.to_owned()));
        }
        all.into_iter()
            .map(|(key, value)| {
                let cbor =
                    values::to_cbor(&value).map_err(|e| Failure::usage(format!("metadata `{}`: {e}", escape(&key))))?;
                Ok((key, cbor))
            })
            .collect()
    }
}

/// The JSON object that a flag holds.
pub(super) fn parse_object(flag: &str, text: &str) -> Result<Map<String, Value>, Failure> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(Failure::usage(format!("{flag}: expected a JSON object such as {{\"path\": \"/data\"}}"))),
        Err(e) => Err(Failure::usage(format!("{flag}: not JSON: {e}"))),
    }
}
