//! The plugin that counts every access, with its files, none of which has a name.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, Write};

use numapilot_lab_model::{Model, Report};

use super::part;
use crate::command_line::{Parts, escape};
use crate::descriptor::{memory, path_of};
use crate::{LabError, Shape};

/// File name of the plugin.
const PLUGIN: &str = "libnumapilot_lab_plugin.so";

/// The files of the plugin.
pub struct Counters {
    plugin: OsString,
    /// The timing model.
    model: File,
    /// The plugin's report.
    report: File,
    /// The memory that guest and plugin share.
    shared: Option<(File, u64)>,
}

impl Counters {
    /// Prepares the files for a model.
    pub fn new(model: &Model, shape: &Shape) -> Result<Self, LabError> {
        let apic_ids: Vec<String> = shape.apic_ids().iter().map(u32::to_string).collect();
        let mut plugin = escape(&part(PLUGIN)?);
        plugin.push(format!(",apic={}", apic_ids.join(":")));
        let mut file = memory(c"model")?;
        let text = serde_json::to_vec(model).map_err(LabError::host("write the model"))?;
        file.write_all(&text).map_err(LabError::host("write the model"))?;
        let shared = match model.pmu_shape() {
            Some(shape) => {
                let bytes = shape.file_bytes();
                let file = memory(c"counters")?;
                file.set_len(bytes).map_err(LabError::host("make the counters"))?;
                Some((file, bytes))
            }
            None => None,
        };
        Ok(Self { plugin, model: file, report: memory(c"report")?, shared })
    }

    /// Adds the plugin to the parts of a machine.
    pub fn add_to(&self, parts: &mut Parts) {
        let mut plugin = self.plugin.clone();
        for (name, file) in [("model", &self.model), ("report", &self.report)]
            .into_iter()
            .chain(self.shared.as_ref().map(|(file, _)| ("pmu", file)))
        {
            plugin.push(format!(",{name}={}", path_of(file).display()));
        }
        parts.plugin = Some(plugin);
        parts.counters = self.shared.as_ref().map(|(file, bytes)| (path_of(file), *bytes));
    }

    /// Reads the report after QEMU has ended.
    pub fn report(mut self) -> Result<Report, LabError> {
        let mut text = String::new();
        self.report
            .rewind()
            .and_then(|()| self.report.read_to_string(&mut text))
            .map_err(LabError::host("read the report"))?;
        serde_json::from_str(&text).map_err(LabError::host("read the plugin's report"))
    }
}
