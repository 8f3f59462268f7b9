//! A component file: its bytes, its digest and its manifest. Nothing is compiled here.

use crate::cache::{Cache, Identity};
use crate::exit::Failure;
use act_policy::{Manifest, ManifestError, SECTION, escape};
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use wasmparser::{Chunk, Encoding, Parser, Payload};

/// Largest component file in bytes.
const MAX_COMPONENT: u64 = 512 << 20;

/// A component that was read and whose manifest was accepted.
#[derive(Debug)]
pub struct Component {
    /// The reference as the operator wrote it, escaped for one line.
    pub reference: String,
    file: File,
    /// The file's bytes, where they had to be read.
    bytes: Option<Vec<u8>>,
    /// The payload of the manifest's section: CBOR.
    pub section: Vec<u8>,
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
        Self::load_by(reference, home, None)
    }

    /// The same; what the cache has noted of the file is not found out again.
    pub fn load_by(reference: &str, home: Option<&str>, cache: Option<&Cache>) -> Result<Self, Failure> {
        let shown = escape(reference);
        let fail = |reason: String| Failure::failed(format!("{shown}: {reason}"));
        let file = File::open(reference).map_err(|e| fail(e.to_string()))?;
        let metadata = file.metadata().map_err(|e| fail(e.to_string()))?;
        if !metadata.is_file() {
            return Err(fail("not a regular file".into()));
        }
        let identity = Identity::of(&file).map_err(|e| fail(e.to_string()))?;
        let noted = cache.and_then(|cache| cache.recall(&identity));
        let noted = noted.and_then(|note| postcard::from_bytes::<Known>(&note).ok());
        let (known, bytes) = if let Some(known) = noted {
            (known, None)
        } else {
            let bytes = read(&file, identity.size).map_err(fail)?;
            let Found { section, has_sessions } = look(&bytes).map_err(fail)?;
            let known = Known { digest: Sha256::digest(&bytes).into(), section: section.to_vec(), has_sessions };
            if let (Some(cache), Ok(note)) = (cache, postcard::to_extend(&known, Vec::new())) {
                cache.note(&file, &identity, &note);
            }
            (known, Some(bytes))
        };
        let Known { digest, section, has_sessions } = known;
        let manifest = Manifest::decode(&section, home).map_err(|e| fail(e.to_string()))?;
        Ok(Self { reference: shown, file, bytes, section, digest, manifest, has_sessions })
    }

    /// The file's bytes: those that the digest is of.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>, Failure> {
        if let Some(bytes) = &self.bytes {
            return Ok(Cow::Borrowed(bytes));
        }
        let fail = |reason: String| Failure::failed(format!("{}: {reason}", self.reference));
        let bytes = read(&self.file, 0).map_err(fail)?;
        if Sha256::digest(&bytes)[..] != self.digest {
            return Err(fail("it was changed meanwhile".into()));
        }
        Ok(Cow::Owned(bytes))
    }

    /// The digest in hexadecimal.
    pub fn digest_hex(&self) -> String {
        hex(&self.digest)
    }
}

/// What is found out of a file once.
#[derive(serde::Serialize, serde::Deserialize)]
struct Known {
    digest: [u8; 32],
    section: Vec<u8>,
    has_sessions: bool,
}

fn read(mut file: &File, size: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(MAX_COMPONENT)).unwrap_or(0));
    file.rewind().map_err(|e| e.to_string())?;
    file.take(MAX_COMPONENT + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > MAX_COMPONENT {
        return Err(format!("more than {MAX_COMPONENT} bytes"));
    }
    Ok(bytes)
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
