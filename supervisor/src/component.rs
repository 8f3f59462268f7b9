//! A component file: its bytes, its digest and its manifest. Nothing is compiled here.

use crate::exit::Failure;
use act_policy::{Manifest, ManifestError, SECTION, escape};
use sha2::{Digest as _, Sha256};
use std::io::Read as _;
use wasmparser::{Chunk, Encoding, Parser, Payload};

/// Largest component file in bytes.
const MAX_COMPONENT: u64 = 512 << 20;

/// A component that was read and whose manifest was accepted.
#[derive(Debug)]
pub struct Component {
    /// The reference as the operator wrote it, escaped for one line.
    pub reference: String,
    /// The file's bytes.
    pub bytes: Vec<u8>,
    /// SHA-256 of the bytes.
    pub digest: [u8; 32],
    /// The manifest.
    pub manifest: Manifest,
    /// Whether it exports sessions.
    pub has_sessions: bool,
}

/// What a component with sessions exports, up to the patch of its version.
const SESSIONS: &str = "act:sessions/session-provider@0.2.";

impl Component {
    /// Read a component file.
    pub fn load(reference: &str, home: Option<&str>) -> Result<Self, Failure> {
        let shown = escape(reference);
        let fail = |reason: String| Failure::failed(format!("{shown}: {reason}"));
        let file = std::fs::File::open(reference).map_err(|e| fail(e.to_string()))?;
        let metadata = file.metadata().map_err(|e| fail(e.to_string()))?;
        if !metadata.is_file() {
            return Err(fail("not a regular file".into()));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(MAX_COMPONENT)).unwrap_or(0));
        file.take(MAX_COMPONENT + 1).read_to_end(&mut bytes).map_err(|e| fail(e.to_string()))?;
        if bytes.len() as u64 > MAX_COMPONENT {
            return Err(fail(format!("more than {MAX_COMPONENT} bytes")));
        }
        let Found { section, has_sessions } = look(&bytes).map_err(fail)?;
        let manifest = Manifest::decode(section, home).map_err(|e| fail(e.to_string()))?;
        let digest = Sha256::digest(&bytes).into();
        Ok(Self { reference: shown, bytes, digest, manifest, has_sessions })
    }

    /// The payload of the manifest's section: CBOR.
    pub fn section(&self) -> &[u8] {
        look(&self.bytes).map(|found| found.section).unwrap_or_default()
    }

    /// The digest in hexadecimal.
    pub fn digest_hex(&self) -> String {
        hex(&self.digest)
    }
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// What is read of a component's binary.
struct Found<'a> {
    /// The payload of the one `act:component` section at the top level.
    section: &'a [u8],
    has_sessions: bool,
}

fn look(bytes: &[u8]) -> Result<Found<'_>, String> {
    let malformed = |e: wasmparser::BinaryReaderError| format!("not a valid component: {}", escape(e.message()));
    let mut parser = Parser::new(0);
    let mut rest = bytes;
    let mut found = None;
    let mut has_sessions = false;
    loop {
        let (payload, consumed) = match parser.parse(rest, true).map_err(malformed)? {
            Chunk::Parsed { payload, consumed } => (payload, consumed),
            Chunk::NeedMoreData(_) => return Err("not a valid component: it ends early".into()),
        };
        rest = rest.get(consumed..).unwrap_or_default();
        match payload {
            Payload::Version { encoding: Encoding::Module, .. } => {
                return Err("a core module, not a component (wrap it with wasm-tools component new)".into());
            }
            // What is nested has no say about the whole.
            Payload::ModuleSection { unchecked_range: range, .. }
            | Payload::ComponentSection { unchecked_range: range, .. } => {
                rest = rest.get(range.len()..).ok_or("not a valid component: it ends early")?;
            }
            Payload::CustomSection(section) if section.name() == SECTION => {
                if found.is_some() {
                    return Err(ManifestError::Second.to_string());
                }
                found = Some(section.data());
            }
            Payload::ComponentExportSection(exports) => {
                for export in exports {
                    has_sessions |= export.map_err(malformed)?.name.name.starts_with(SESSIONS);
                }
            }
            Payload::End(_) => break,
            _ => {}
        }
    }
    let section = found.ok_or_else(|| ManifestError::Missing.to_string())?;
    Ok(Found { section, has_sessions })
}
