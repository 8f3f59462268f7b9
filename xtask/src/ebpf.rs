//! `cargo xtask ebpf [--check]`: builds `ebpf/guard.bpf.o`, or checks that it is what the sources give.
//!
//! rustc's BPF target gives LLVM bitcode only, and rustup has no core library for it. Debian has both, and the LLVM
//! tools to go on with; the packages are unpacked into the user's cache, never installed, so this needs no root.
//! Debian's versions float: `ebpf/TOOLCHAIN` records the ones that the committed object comes from, and its hash.

use anyhow::{Context as _, Result, bail, ensure};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

/// The LLVM that the compiler links: its tools must read the compiler's bitcode.
const LLVM: &str = "llvm-22";

/// Symbols that stay in the object: programs, maps and the licence. All else is inlined or dropped.
const SYMBOLS: &str = "connect4,connect6,sendmsg4,sendmsg6,bind4,bind6,sock_create,egress,\
                       closed_connect4,closed_connect6,closed_sendmsg4,closed_sendmsg6,closed_bind4,closed_bind6,\
                       closed_egress,\
                       POLICY,RULES4,RULES6,EVENTS,DROPPED,LICENSE";

/// Rebuilds the object and writes it with its `TOOLCHAIN` record, or compares with the committed one when `check`.
pub(crate) fn run(check: bool) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the project's root")?;
    let ebpf = root.join("ebpf").canonicalize().context("no `ebpf` folder")?;
    let cache = cache()?;
    let apt = Apt::open(&cache)?;
    let rustc = apt.candidate("rustc-web")?;
    let llvm = apt.candidate(LLVM)?;
    let tools = toolchain(&cache, &apt, &rustc, &llvm)?;

    let built = ebpf.join("target/guard.bpf.o");
    build(&ebpf, &tools, &built)?;
    let hash = sha256(&built)?;
    let toolchain = format!("rustc-web {rustc}\n{LLVM} {llvm}\n");
    let record = format!(
        "# What guard.bpf.o was built with. Written by `cargo xtask ebpf`, compared by `cargo xtask ebpf --check`.\n\
         {toolchain}sha256 {hash}\n"
    );
    let (object, record_path) = (ebpf.join("guard.bpf.o"), ebpf.join("TOOLCHAIN"));
    if !check {
        fs::copy(&built, &object).with_context(|| format!("write {}", object.display()))?;
        fs::write(&record_path, record).with_context(|| format!("write {}", record_path.display()))?;
        println!("ebpf/guard.bpf.o: {} bytes, sha256 {hash}", fs::metadata(&object)?.len());
        return Ok(());
    }

    let recorded = fs::read_to_string(&record_path).with_context(|| format!("read {}", record_path.display()))?;
    let committed = sha256(&object)?;
    ensure!(
        recorded.lines().any(|line| line.strip_prefix("sha256 ") == Some(&*committed)),
        "ebpf/guard.bpf.o has sha256 {committed}, which ebpf/TOOLCHAIN does not record: run `cargo xtask ebpf`"
    );
    if !recorded.contains(&toolchain) {
        let was = recorded.lines().filter(|l| !l.starts_with(['#', 's'])).collect::<Vec<_>>().join(", ");
        println!(
            "toolchain is {}, recorded {was}: bytes not comparable, testing with the rebuilt object",
            toolchain.trim_end().replace('\n', ", ")
        );
        println!("ACT_GUARD_OBJECT={}", built.display());
        return Ok(());
    }
    ensure!(
        fs::read(&built)? == fs::read(&object)?,
        "ebpf/guard.bpf.o is not what the sources give: {} has sha256 {hash}, the committed one {committed}",
        built.display()
    );
    println!("ebpf/guard.bpf.o: rebuilt to the same bytes, sha256 {hash}");
    Ok(())
}

/// `$XDG_CACHE_HOME/act-build`, else `~/.cache/act-build`.
fn cache() -> Result<PathBuf> {
    let base = match env::var_os("XDG_CACHE_HOME").filter(|path| Path::new(path).is_absolute()) {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?).join(".cache"),
    };
    let cache = base.join("act-build");
    fs::create_dir_all(&cache).with_context(|| format!("create {}", cache.display()))?;
    Ok(cache.canonicalize()?)
}

/// apt's clients, over the system's package lists, or over private ones where the system has none.
struct Apt {
    options: Vec<String>,
}

impl Apt {
    fn open(cache: &Path) -> Result<Self> {
        let system = Self { options: vec!["-oAPT::Sandbox::User=root".into()] };
        if system.candidate("rustc-web").is_ok() && system.candidate(LLVM).is_ok() {
            return Ok(system);
        }
        let state = cache.join("apt");
        fs::create_dir_all(state.join("lists/partial"))?;
        let mut private = system;
        private.options.push(format!("-oDir::State={}", state.display()));
        private.options.push(format!("-oDir::Cache={}", state.display()));
        private.options.push("-oDir::State::status=/var/lib/dpkg/status".into());
        output(private.command("apt-get").args(["-q", "update"]))?;
        Ok(private)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(&self.options).env("LC_ALL", "C");
        command
    }

    /// The version that apt would install now.
    fn candidate(&self, package: &str) -> Result<String> {
        let text = output(self.command("apt-cache").args(["policy", package]))?;
        text.lines()
            .find_map(|line| line.trim().strip_prefix("Candidate: "))
            .filter(|version| *version != "(none)")
            .map(str::to_owned)
            .with_context(|| format!("apt offers no package `{package}`; on another system, use the committed object"))
    }
}

/// The unpacked toolchain's `usr` folder.
fn toolchain(cache: &Path, apt: &Apt, rustc: &str, llvm: &str) -> Result<PathBuf> {
    let plain = |version: &str| version.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "_");
    let tools = cache.join(format!("ebpf-toolchain-{}-{}", plain(rustc), plain(llvm)));
    if tools.is_dir() {
        return Ok(tools.join("usr"));
    }
    println!("unpacking rustc {rustc} and LLVM {llvm} into {}", tools.display());
    let minor = rustc.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
    let packages = [
        format!("rustc-web={rustc}"),
        format!("libstd-rust-web-dev={rustc}"),
        format!("libstd-rust-web-{minor}={rustc}"),
        format!("libstd-rust-web-dev-bpf={rustc}"),
        format!("{LLVM}={llvm}"),
        format!("{}={llvm}", LLVM.replace("llvm-", "libllvm")),
    ];
    // Unpacked aside and renamed, so that an interrupted run leaves no half toolchain under the real name.
    let partial = cache.join(format!("ebpf-toolchain-{}.partial", process::id()));
    let debs = partial.join("debs");
    fs::create_dir_all(&debs)?;
    let unpacked = (|| {
        output(apt.command("apt-get").args(["-q", "download"]).args(packages).current_dir(&debs))?;
        for deb in fs::read_dir(&debs)? {
            output(Command::new("dpkg").arg("-x").arg(deb?.path()).arg(&partial))?;
        }
        fs::remove_dir_all(&debs)?;
        if let Err(error) = fs::rename(&partial, &tools) {
            // Another run was first: its toolchain has the same name because it has the same versions.
            ensure!(tools.is_dir(), "rename to {}: {error}", tools.display());
        }
        Ok(())
    })();
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    unpacked.map(|()| tools.join("usr"))
}

/// Static library with fat LTO → its one bitcode member → internalize and optimise → BPF object without debug info.
fn build(ebpf: &Path, usr: &Path, object: &Path) -> Result<()> {
    let multiarch = fs::read_dir(usr.join("lib"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.to_string_lossy().ends_with("-linux-gnu"))
        .context("the unpacked toolchain has no library folder")?;
    let bin = usr.join("lib").join(LLVM).join("bin");
    let libraries = env::join_paths([multiarch, usr.join("lib").join(LLVM).join("lib")])?;
    let tool = |program: &Path| {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", &libraries);
        command
    };

    let target = ebpf.join("target");
    let cargo_home = match env::var_os("CARGO_HOME") {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(env::var_os("HOME").context("neither CARGO_HOME nor HOME is set")?).join(".cargo"),
    };
    let flags = [
        // aya-ebpf asks for the machine's architecture; what is used here does not depend on it.
        "--cfg=bpf_target_arch=\"x86_64\"".to_owned(),
        // No path of this machine may get into the object.
        format!("--remap-path-prefix={}=/act", ebpf.display()),
        format!("--remap-path-prefix={}=/registry", cargo_home.join("registry/src").display()),
    ];
    let mut cargo = tool(Path::new(&env::var_os("CARGO").unwrap_or_else(|| "cargo".into())));
    cargo
        .args(["build", "--quiet", "--locked", "--release", "--package", "act-ebpf-programs"])
        .args(["--target", "bpfel-unknown-none"])
        .current_dir(ebpf)
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env("RUSTC", usr.join("bin/rustc"))
        // Assembly for BPF is an unstable feature, and this a stable compiler: open it to the two crates that use it.
        .env("RUSTC_BOOTSTRAP", "aya_ebpf,guard");
    for name in ["RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        cargo.env_remove(name);
    }
    let status = cargo.status().context("run cargo")?;
    ensure!(status.success(), "cargo could not build the eBPF programs: {status}");

    let work = target.join(format!("link-{}", process::id()));
    fs::create_dir_all(&work)?;
    let linked = (|| {
        let library = target.join("bpfel-unknown-none/release/libguard.a");
        output(tool(&bin.join("llvm-ar")).arg("x").arg(&library).current_dir(&work))?;
        let members = fs::read_dir(&work)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        let [bitcode] = &members[..] else {
            bail!("the static library has {} members; fat LTO leaves one", members.len());
        };
        let (optimised, plain) = (work.join("guard.bc"), work.join("guard.o"));
        output(
            tool(&bin.join("opt"))
                .arg("-passes=internalize,globaldce,default<O2>")
                .arg(format!("--internalize-public-api-list={SYMBOLS}"))
                .args([bitcode.as_os_str(), OsStr::new("-o"), optimised.as_os_str()]),
        )?;
        output(tool(&bin.join("llc")).args(["-march=bpfel", "-mcpu=v3", "-filetype=obj"]).args([
            optimised.as_os_str(),
            OsStr::new("-o"),
            plain.as_os_str(),
        ]))?;
        output(tool(&bin.join("llvm-strip")).arg("-g").arg(&plain))?;
        fs::copy(&plain, object).with_context(|| format!("write {}", object.display()))?;
        Ok(())
    })();
    fs::remove_dir_all(&work)?;
    linked
}

/// SHA-256 of a file, in hexadecimal.
fn sha256(path: &Path) -> Result<String> {
    let text = output(Command::new("sha256sum").arg("--").arg(path))?;
    text.split_whitespace().next().map(str::to_owned).context("sha256sum printed nothing")
}

/// Runs a command to its end and returns what it printed.
fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().with_context(|| format!("run {name}"))?;
    ensure!(done.status.success(), "{name}: {}\n{}", done.status, String::from_utf8_lossy(&done.stderr).trim_end());
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
