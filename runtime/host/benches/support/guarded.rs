//! The component in a store of `act-host`.

use super::PolicyGate;
use act_host::{Component, Events, Instance, Limits, Prepared, linker};
use act_wire::{ContentPart, ToolEvent};
use std::path::Path;
use std::sync::{Arc, Mutex};
use wasmtime::Engine;

pub struct Guarded(Instance);

impl Guarded {
    pub async fn new(
        engine: &Engine,
        component: &wasmtime::component::Component,
        gate: PolicyGate,
        folder: Option<&Path>,
    ) -> Self {
        let shown = folder.map(|folder| ("/data", folder.as_os_str().as_encoded_bytes()));
        let limits = Limits { memory: 1 << 30, output: 1 << 20, handles: 1000 };
        let prepared = Prepared::new(Arc::new(gate), shown, None, limits).unwrap();
        let component = Component::new(&linker(engine).unwrap(), component).unwrap();
        Self(component.instantiate(engine, &prepared).await.unwrap())
    }

    /// The text that a tool answers with.
    pub async fn call(&mut self, tool: &str, arguments: &[u8]) -> String {
        let Instance { store, tools, .. } = &mut self.0;
        let text = Arc::new(Text::default());
        let (name, arguments, events) = (tool.to_owned(), arguments.to_vec(), text.clone());
        let called = store.run_concurrent(async |store| tools.call(store, name, arguments, Vec::new(), events).await);
        called.await.unwrap().unwrap();
        std::mem::take(&mut text.0.lock().unwrap())
    }
}

#[derive(Default)]
struct Text(Mutex<String>);

impl Events for Text {
    fn event(&self, event: ToolEvent) {
        match event {
            ToolEvent::Content(ContentPart { data, .. }) => {
                self.0.lock().unwrap().push_str(std::str::from_utf8(&data).unwrap());
            }
            ToolEvent::Error(error) => panic!("{error:?}"),
        }
    }
}
