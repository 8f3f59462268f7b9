//! `act secret rm REF|NAME`

use crate::component::Component;
use crate::config::dirs;
use crate::exit::{Exit, Failure};
use crate::secrets::Store;
use crate::signals::Signals;
use crate::terminal::Terminal;
use act_policy::escape;

#[derive(clap::Args, Debug)]
pub(in crate::cli) struct Args {
    /// Component file, or the component's name where the file is gone
    #[arg(value_name = "REF")]
    component: String,
    /// Only this credential
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Only this field of it
    #[arg(long, value_name = "FIELD", requires = "key")]
    field: Option<String>,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let signals = Signals::take().map_err(|e| Failure::failed(format!("signalfd: {e}")))?;
    let name = if std::path::Path::new(&args.component).exists() {
        let home = dirs::variable("HOME").filter(|h| h.starts_with('/'));
        Component::load(&args.component, home.as_deref())?.manifest.name
    } else {
        args.component.clone()
    };
    let (mut store, mut terminal) = (Store::of_user()?, Terminal::open(&signals));
    let (key, field) = (args.key.as_deref(), args.field.as_deref());
    // Looked up first: what is not there must not bring a new store about.
    let known = store.read(&mut terminal)?;
    let there = known.names().any(|(component, k, fields)| {
        component == name && key.is_none_or(|key| key == k) && field.is_none_or(|field| fields.contains(&field))
    });
    if !there {
        let what = [Some(name.as_str()), key, field].into_iter().flatten().map(escape).collect::<Vec<_>>().join(" ");
        return Err(Failure::failed(format!("nothing is kept for {what} (act secret list shows what is)")));
    }
    let removed = store.update(&mut terminal, |content| content.remove(&name, key, field))?.value;
    let fields = if removed == 1 { "field" } else { "fields" };
    eprintln!("act: {removed} {fields} of {} removed", escape(&name));
    Ok(Exit::Ok)
}
