//! Arguments of `study lab`.

use std::path::PathBuf;

/// Arguments of `study lab`.
#[derive(clap::Args)]
pub struct Args {
    /// The file of another lab study.
    #[arg(value_name = "FILE")]
    pub study: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Print the tables in Markdown, with the source of each figure.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Make only these runs; figures that need other runs have no value.
    #[arg(long, value_name = "RUN,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Keep the runs' results in DIR, and skip runs whose results are there.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Draw the distribution of the errors, or else the study's first curve, to FILE.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}
