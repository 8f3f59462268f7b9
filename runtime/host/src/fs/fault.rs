//! Why an operation did not happen, and its code in each version of WASI.

use rustix::io::Errno;

/// Why an operation did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The policy, or this host, refused; recorded already.
    Denied,
    /// The kernel's answer, or what it would have answered.
    Errno(Errno),
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// The two versions have the same codes under different types.
macro_rules! code {
    ($fault:expr, $code:path, $other:expr) => {{
        use $code as Code;
        match $fault {
            Fault::Denied => Code::NotPermitted,
            Fault::Errno(errno) => match errno {
                Errno::ACCESS => Code::Access,
                Errno::AGAIN | Errno::BUSY => Code::Busy,
                Errno::BADF => Code::BadDescriptor,
                Errno::DQUOT => Code::Quota,
                Errno::EXIST => Code::Exist,
                Errno::FBIG => Code::FileTooLarge,
                Errno::ILSEQ => Code::IllegalByteSequence,
                Errno::INTR => Code::Interrupted,
                Errno::INVAL => Code::Invalid,
                Errno::ISDIR => Code::IsDirectory,
                Errno::LOOP => Code::Loop,
                Errno::MLINK => Code::TooManyLinks,
                Errno::NAMETOOLONG => Code::NameTooLong,
                Errno::NODEV => Code::NoDevice,
                Errno::NOENT => Code::NoEntry,
                Errno::NOMEM | Errno::MFILE | Errno::NFILE => Code::InsufficientMemory,
                Errno::NOSPC => Code::InsufficientSpace,
                Errno::NOTDIR => Code::NotDirectory,
                Errno::NOTEMPTY => Code::NotEmpty,
                Errno::NOTSUP | Errno::NOSYS => Code::Unsupported,
                Errno::NXIO => Code::NoSuchDevice,
                Errno::OVERFLOW => Code::Overflow,
                Errno::PERM => Code::NotPermitted,
                Errno::PIPE => Code::Pipe,
                Errno::ROFS => Code::ReadOnly,
                Errno::SPIPE => Code::InvalidSeek,
                Errno::TXTBSY => Code::TextFileBusy,
                Errno::XDEV => Code::CrossDevice,
                _ => $other,
            },
        }
    }};
}

impl From<Fault> for wasmtime_wasi::p2::FsError {
    fn from(fault: Fault) -> Self {
        use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
        code!(fault, ErrorCode, ErrorCode::Io).into()
    }
}

impl From<Fault> for wasmtime_wasi::p3::bindings::filesystem::types::ErrorCode {
    fn from(fault: Fault) -> Self {
        use wasmtime_wasi::p3::bindings::filesystem::types::ErrorCode;
        code!(fault, ErrorCode, ErrorCode::Io)
    }
}

/// `?` from a fault in a 0.3 function.
pub(crate) fn fault3(fault: Fault) -> wasmtime_wasi::p3::filesystem::FilesystemError {
    wasmtime_wasi::p3::bindings::filesystem::types::ErrorCode::from(fault).into()
}
