//! Guest for tests: WASI 0.3.
use act_sdk::prelude::*;

#[act_component]
mod component {
    use super::*;
    use wasip3::filesystem::preopens::get_directories;
    use wasip3::filesystem::types::*;

    fn e<T: core::fmt::Debug>(c: T) -> ActError {
        ActError::internal(format!("{c:?}"))
    }

    fn root() -> ActResult<Descriptor> {
        get_directories().into_iter().next().map(|(d, _)| d).ok_or_else(|| ActError::internal("no preopen"))
    }

    #[act_tool(description = "Read a file", read_only)]
    async fn read_file(path: String) -> ActResult<String> {
        let f = root()?.open_at(PathFlags::SYMLINK_FOLLOW, path, OpenFlags::empty(), DescriptorFlags::READ).await.map_err(e)?;
        let (data, end) = f.read_via_stream(0);
        let bytes = data.collect().await;
        end.await.map_err(e)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    #[act_tool(description = "Write a file")]
    async fn write_file(path: String, text: String) -> ActResult<String> {
        let f = root()?
            .open_at(PathFlags::SYMLINK_FOLLOW, path, OpenFlags::CREATE | OpenFlags::TRUNCATE, DescriptorFlags::WRITE)
            .await
            .map_err(e)?;
        let (mut sender, receiver) = wasip3::wit_stream::new();
        let end = f.write_via_stream(receiver, 0);
        let rest = sender.write_all(text.into_bytes()).await;
        drop(sender);
        end.await.map_err(e)?;
        Ok(format!("left {}", rest.len()))
    }

    #[act_tool(description = "Append through a descriptor that was opened for reading")]
    async fn append_readonly(path: String) -> ActResult<String> {
        let f = root()?.open_at(PathFlags::SYMLINK_FOLLOW, path, OpenFlags::empty(), DescriptorFlags::READ).await.map_err(e)?;
        f.set_size(0).await.map_err(e)?;
        Ok("truncated".into())
    }

    #[act_tool(description = "List a directory", read_only)]
    async fn list_dir(path: String) -> ActResult<String> {
        let d = root()?.open_at(PathFlags::SYMLINK_FOLLOW, path, OpenFlags::DIRECTORY, DescriptorFlags::READ).await.map_err(e)?;
        let (entries, end) = d.read_directory();
        let mut names: Vec<_> = entries.collect().await.into_iter().map(|x| x.name).collect();
        end.await.map_err(e)?;
        names.sort();
        Ok(names.join(","))
    }

    #[act_tool(description = "One operation on paths")]
    async fn act(what: String, path: String, other: String) -> ActResult<String> {
        let d = root()?;
        match what.as_str() {
            "mkdir" => d.create_directory_at(path).await.map_err(e)?,
            "rmdir" => d.remove_directory_at(path).await.map_err(e)?,
            "unlink" => d.unlink_file_at(path).await.map_err(e)?,
            "symlink" => d.symlink_at(other, path).await.map_err(e)?,
            "rename" => d.rename_at(path, &d, other).await.map_err(e)?,
            "link" => d.link_at(PathFlags::empty(), path, &d, other).await.map_err(e)?,
            "times" => d.set_times_at(PathFlags::empty(), path, NewTimestamp::Now, NewTimestamp::Now).await.map_err(e)?,
            "readlink" => return d.readlink_at(path).await.map_err(e),
            "stat" => {
                let s = d.stat_at(PathFlags::empty(), path).await.map_err(e)?;
                return Ok(format!("{:?} {}", s.type_, s.size));
            }
            _ => return Err(ActError::internal("what?")),
        }
        Ok("ok".into())
    }

    #[act_tool(description = "Resolve a name", read_only)]
    async fn resolve(host: String) -> ActResult<String> {
        Ok(format!("{:?}", wasip3::sockets::ip_name_lookup::resolve_addresses(host).await.map_err(e)?))
    }

    #[act_tool(description = "Many events")]
    async fn stream(n: u32, bytes: u32, ctx: &mut ActContext) -> ActResult<()> {
        for i in 0..n {
            ctx.send_text(format!("{i};{}", "x".repeat(bytes as usize)));
        }
        Ok(())
    }

    #[act_tool(description = "Ask for consent")]
    async fn consent(class: String, key: String) -> ActResult<String> {
        use crate::act::consent::consent_authority::{ConsentRequest, request};
        let what = ConsentRequest { class, key, summary: "a test".into(), args: Vec::new() };
        Ok(format!("{:?}", request(what, Vec::new()).await))
    }

    #[act_tool(description = "Ask for a secret")]
    async fn secret(key: String) -> ActResult<String> {
        use crate::act::credentials::store::{SecretRequest, get_secret, list_secrets};
        let want = SecretRequest { key, kind: None, resource: None, scopes: Vec::new(), hint: None };
        let listed = list_secrets(None).await.map(|l| l.len());
        let got = get_secret("s".into(), want).await.map(|s| s.kind);
        Ok(format!("{listed:?} {got:?}"))
    }

    #[act_tool(description = "Trap")]
    async fn trap() -> ActResult<String> {
        core::arch::wasm32::unreachable()
    }
}
