//! The component in a store of plain wasmtime-wasi and wasmtime-wasi-http, whose requests go through a client that
//! judges nothing and keeps its connections.

use bytes::Bytes;
use http::Uri;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use tokio::net::TcpStream;
use wasmtime::component::{Component, Linker, ResourceTable};
use wasmtime::{Engine, Store};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView};

mod bindings {
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "generated")]
    wasmtime::component::bindgen!({
        inline: "package bench:bench; world tools { export act:tools/tool-provider@0.2.0; }",
        path: "wit",
        world: "bench:bench/tools",
        exports: { default: async | store },
        require_store_data_send: true,
    });
}

use bindings::act::tools::types::ToolEvent;
use bindings::exports::act::tools::tool_provider::ToolResult;

struct State {
    table: ResourceTable,
    wasi: WasiCtx,
    http: WasiHttpCtx,
    hooks: Unguarded,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { hooks: &mut self.hooks, table: &mut self.table, ctx: &mut self.http }
    }
}

pub struct Plain {
    store: Store<State>,
    tools: bindings::Tools,
}

impl Plain {
    pub async fn new(engine: &Engine, component: &Component, folder: Option<&Path>) -> Self {
        let mut linker = Linker::<State>::new(engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).unwrap();
        wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker).unwrap();
        wasmtime_wasi::p3::add_to_linker(&mut linker).unwrap();
        wasmtime_wasi_http::p3::add_to_linker(&mut linker).unwrap();
        let mut wasi = WasiCtx::builder();
        // As in `act-host`: without this every operation on a file would go to another thread.
        wasi.allow_blocking_current_thread(true);
        if let Some(folder) = folder {
            wasi.preopened_dir(folder, "/data", FsPerms::ReadWrite).unwrap();
        }
        let (http, hooks) = (WasiHttpCtx::new(), Unguarded::default());
        let mut store = Store::new(engine, State { table: ResourceTable::new(), wasi: wasi.build(), http, hooks });
        store.set_epoch_deadline(1);
        let tools = bindings::Tools::instantiate_async(&mut store, component, &linker).await.unwrap();
        Self { store, tools }
    }

    /// The text that a tool answers with.
    pub async fn call(&mut self, tool: &str, arguments: &[u8]) -> String {
        let (name, arguments) = (tool.to_owned(), arguments.to_vec());
        let tools = self.tools.act_tools_tool_provider();
        let call =
            self.store.run_concurrent(async |store| tools.call_call_tool(store, name, arguments, Vec::new()).await);
        let ToolResult::Immediate(events) = call.await.unwrap().unwrap() else { panic!("a stream") };
        let mut text = String::new();
        for event in events {
            match event {
                ToolEvent::Content(part) => text.push_str(std::str::from_utf8(&part.data).unwrap()),
                ToolEvent::Error(error) => panic!("{error:?}"),
            }
        }
        text
    }
}

/// Connections without a request, to one authority each.
type Idle = Arc<Mutex<Vec<(String, SendRequest<WasiBody>)>>>;

/// Sends everything anywhere.
#[derive(Default)]
struct Unguarded(Idle);

type Sent = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

impl WasiHttpHooks for Unguarded {
    fn send_request(
        &mut self,
        mut request: http::Request<WasiBody>,
        _: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Sent, Error>> + Send> {
        let idle = self.0.clone();
        Box::new(async move {
            let authority = request.uri().authority().ok_or(Error::HttpRequestUriInvalid)?.to_string();
            let mut sender = match take(&idle, &authority) {
                Some(sender) => sender,
                None => connect(&authority).await?,
            };
            let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
            *request.uri_mut() = path.parse::<Uri>().map_err(|_| Error::HttpRequestUriInvalid)?;
            let response = sender.send_request(request).await?;
            let back = Some((idle, authority, sender));
            let response = response.map(|body| Returning { body, back }.boxed_unsync());
            let done: Box<dyn Future<Output = _> + Send> = Box::new(std::future::ready(Ok(())));
            Ok((response, done))
        })
    }
}

fn take(idle: &Idle, authority: &str) -> Option<SendRequest<WasiBody>> {
    let mut idle = idle.lock().unwrap();
    let at = idle.iter().rposition(|(to, sender)| to == authority && sender.is_ready())?;
    Some(idle.swap_remove(at).1)
}

async fn connect(authority: &str) -> Result<SendRequest<WasiBody>, Error> {
    let stream = TcpStream::connect(authority).await.map_err(Error::Connect)?;
    stream.set_nodelay(true).map_err(Error::Connect)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Puts the connection back at the end of the body.
struct Returning {
    body: Incoming,
    back: Option<(Idle, String, SendRequest<WasiBody>)>,
}

impl Body for Returning {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if (frame.is_none() || self.body.is_end_stream())
            && let Some((idle, authority, sender)) = self.back.take()
        {
            idle.lock().unwrap().push((authority, sender));
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Error::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
