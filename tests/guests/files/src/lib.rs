//! Fixture: every file and socket operation of WASI 0.2 as one small tool each.
//!
//! Paths are handed to the host as they come: nothing is normalised here, so that hostile spellings arrive.

mod fs;
mod net;

use act_sdk::prelude::*;

/// What a call can fail with; its name is the message, so that tests can tell one refusal from another.
trait Failure {
    fn name(self) -> String;
}

impl Failure for wasip2::filesystem::types::ErrorCode {
    fn name(self) -> String {
        wasip2::filesystem::types::ErrorCode::name(&self).to_owned()
    }
}

impl Failure for wasip2::sockets::network::ErrorCode {
    fn name(self) -> String {
        wasip2::sockets::network::ErrorCode::name(&self).to_owned()
    }
}

impl Failure for wasip2::io::streams::StreamError {
    fn name(self) -> String {
        match self {
            Self::Closed => "closed".to_owned(),
            Self::LastOperationFailed(error) => error.to_debug_string(),
        }
    }
}

impl Failure for &str {
    fn name(self) -> String {
        self.to_owned()
    }
}

impl Failure for String {
    fn name(self) -> String {
        self
    }
}

fn error(failure: impl Failure) -> ActError {
    ActError::internal(failure.name())
}

#[act_component]
mod component {
    use super::*;
    use act_sdk::Json;
    use serde_json::Value;
    use wasip2::filesystem::types::{DescriptorFlags, OpenFlags};

    #[act_tool(description = "The guest paths of the preopened directories, one a line", read_only)]
    fn preopens() -> ActResult<String> {
        Ok(fs::preopens())
    }

    #[act_tool(description = "Read a file", read_only)]
    fn read_file(path: String) -> ActResult<String> {
        fs::read(&path)
    }

    #[act_tool(description = "Replace a file by a text, that many times over")]
    fn write_file(path: String, text: String, times: Option<u32>) -> ActResult<String> {
        fs::write(&path, &text, times.unwrap_or(1))
    }

    #[act_tool(description = "Append to a file")]
    fn append(path: String, text: String) -> ActResult<String> {
        fs::append(&path, &text)
    }

    #[act_tool(description = "The sorted names in a directory, one a line", read_only)]
    fn list_dir(path: String) -> ActResult<String> {
        fs::list(&path)
    }

    #[act_tool(description = "Type, size and link count of a path", read_only)]
    fn stat(path: String, follow: Option<bool>) -> ActResult<String> {
        fs::stat(&path, follow.unwrap_or(true))
    }

    #[act_tool(description = "Make a directory")]
    fn mkdir(path: String) -> ActResult<String> {
        fs::at(&path, |dir, rest| dir.create_directory_at(rest))
    }

    #[act_tool(description = "Remove an empty directory", destructive)]
    fn rmdir(path: String) -> ActResult<String> {
        fs::at(&path, |dir, rest| dir.remove_directory_at(rest))
    }

    #[act_tool(description = "Remove a file", destructive)]
    fn unlink(path: String) -> ActResult<String> {
        fs::at(&path, |dir, rest| dir.unlink_file_at(rest))
    }

    #[act_tool(description = "Rename", destructive)]
    fn rename(from: String, to: String) -> ActResult<String> {
        fs::rename(&from, &to)
    }

    #[act_tool(description = "Make a symbolic link")]
    fn symlink(target: String, link: String) -> ActResult<String> {
        fs::at(&link, |dir, rest| dir.symlink_at(&target, rest))
    }

    #[act_tool(description = "Make a hard link")]
    fn hardlink(from: String, to: String) -> ActResult<String> {
        fs::hard_link(&from, &to)
    }

    #[act_tool(description = "The target of a symbolic link", read_only)]
    fn readlink(path: String) -> ActResult<String> {
        fs::read_link(&path)
    }

    #[act_tool(
        description = "Open with flags, a comma list of: create directory exclusive truncate read write mutate nofollow"
    )]
    fn open(path: String, flags: String) -> ActResult<String> {
        fs::open_with(&path, &flags)
    }

    #[act_tool(description = "Open once with each of the 128 combinations of flags; one line each")]
    fn open_all(path: String) -> ActResult<String> {
        fs::open_all(&path)
    }

    #[act_tool(description = "Open a file that many times at once", read_only)]
    fn hold(path: String, count: u32) -> ActResult<String> {
        let open = || fs::open(&path, OpenFlags::empty(), DescriptorFlags::READ);
        let held = (0..count).map(|_| open()).collect::<ActResult<Vec<_>>>()?;
        Ok(format!("{} open", held.len()))
    }

    #[act_tool(description = "Set the size of a file")]
    fn truncate(path: String, size: u64) -> ActResult<String> {
        fs::open(&path, OpenFlags::empty(), DescriptorFlags::WRITE)?.set_size(size).map_err(error)?;
        Ok("ok".into())
    }

    #[act_tool(description = "Connect to a.b.c.d:port or [v6]:port, send, return the first answer")]
    fn tcp(address: String, send: Option<String>) -> ActResult<String> {
        net::tcp(&address, send.as_deref().unwrap_or("ping"))
    }

    #[act_tool(description = "Send one datagram, return the first answer")]
    fn udp(address: String, send: Option<String>) -> ActResult<String> {
        net::udp(&address, send.as_deref().unwrap_or("ping"))
    }

    #[act_tool(description = "Bind and listen, return the local address")]
    fn listen(address: String) -> ActResult<String> {
        net::listen(&address)
    }

    #[act_tool(description = "The addresses of a name, one a line", read_only)]
    fn resolve(name: String) -> ActResult<String> {
        net::resolve(&name)
    }

    #[act_tool(description = "Loop forever")]
    fn spin() -> ActResult<String> {
        let mut count = 0u64;
        loop {
            count = core::hint::black_box(count + 1);
        }
    }

    #[act_tool(description = "Grow the memory by a number of MiB and touch it")]
    fn grow(mib: u32) -> ActResult<String> {
        let mut taken: Vec<Vec<u8>> = Vec::new();
        for n in 0..mib {
            let mut block = Vec::new();
            block.try_reserve_exact(1 << 20).map_err(|_| error(format!("refused after {n} MiB")))?;
            block.resize(1 << 20, 1);
            taken.push(block);
        }
        Ok(format!("grew {} MiB", taken.len()))
    }

    #[act_tool(description = "Return n bytes of text, or of binary data", read_only)]
    fn bytes(n: u32, binary: Option<bool>) -> ActResult<Content> {
        let mime = if binary.unwrap_or(false) { "application/octet-stream" } else { "text/plain" };
        Ok(Content(mime, vec![b'x'; n as usize]))
    }

    #[act_tool(description = "Return the value as JSON", read_only)]
    fn echo(value: Value) -> ActResult<Json<Value>> {
        Ok(Json(value))
    }

    #[act_tool(description = "Write to the standard output and error", read_only)]
    fn print(text: String) -> ActResult<String> {
        for stream in [wasip2::cli::stdout::get_stdout(), wasip2::cli::stderr::get_stderr()] {
            // At most 4096 bytes are accepted at once.
            for part in text.as_bytes().chunks(4096) {
                stream.blocking_write_and_flush(part).map_err(error)?;
            }
        }
        Ok("ok".into())
    }

    #[act_tool(description = "Environment and arguments, one a line", read_only)]
    fn env() -> ActResult<String> {
        let mut lines: Vec<String> =
            wasip2::cli::environment::get_environment().into_iter().map(|(k, v)| format!("{k}={v}")).collect();
        lines.extend(wasip2::cli::environment::get_arguments().into_iter().map(|a| format!("arg {a}")));
        Ok(lines.join("\n"))
    }

    #[act_tool(description = "Trap")]
    fn trap() -> ActResult<String> {
        core::arch::wasm32::unreachable()
    }
}
