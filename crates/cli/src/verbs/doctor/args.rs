//! Arguments of `doctor`.

/// Arguments of `doctor`.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,

    /// Make one call and exit: see `trials`.
    #[arg(long, hide = true, value_name = "NAME")]
    pub trial: Option<String>,
}
