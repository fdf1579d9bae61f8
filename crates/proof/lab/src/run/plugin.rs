//! The options and files of the QEMU plugin, which simulates the guest's clock and memory. The
//! files are in memory and have no names.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, Write};

use numapilot_lab_init::mailbox;
use numapilot_lab_model::Report;

use super::{Request, Streams, part};
use crate::LabError;
use crate::command_line::{Parts, escape};
use crate::descriptor::{memory, path_of};

/// File name of the plugin.
const PLUGIN: &str = "libnumapilot_lab_plugin.so";

/// The value of QEMU's option `-plugin` with which the plugin checks whether it can run in a QEMU.
///
/// # Errors
/// [`LabError::NoPart`] if the plugin is missing.
pub(crate) fn checking_plugin() -> Result<OsString, LabError> {
    let mut plugin = escape(&part(PLUGIN)?);
    plugin.push(",check=on");
    Ok(plugin)
}

/// The plugin's files.
pub struct Plugin {
    plugin: OsString,
    /// The timing model.
    model: File,
    /// The report, which the plugin writes.
    report: File,
    /// The mailbox, which the plugin shares with process 1 of the guest.
    mailbox: File,
    /// The PMU's memory, which the plugin shares with the guest, with its size in bytes; `None` if
    /// accesses are not modelled.
    pmu: Option<(File, u64)>,
}

impl Plugin {
    /// Prepares the files for a request.
    pub fn new(request: &Request) -> Result<Self, LabError> {
        let model = &request.model;
        let mut file = memory(c"model")?;
        let text = serde_json::to_vec(model).map_err(LabError::host("write the model"))?;
        file.write_all(&text).map_err(LabError::host("write the model"))?;
        let shared = |name, bytes| {
            let file = memory(name)?;
            file.set_len(bytes).map_err(LabError::host("make a file in memory"))?;
            Ok::<_, LabError>(file)
        };
        let pmu = match model.pmu_shape().filter(|_| request.counts) {
            Some(shape) => Some((shared(c"counters", shape.file_bytes())?, shape.file_bytes())),
            None => None,
        };
        let mailbox = shared(c"mailbox", mailbox::BYTES)?;
        let mut plugin = escape(&part(PLUGIN)?);
        plugin.push(format!(",scale={}", request.time_scale));
        if let Some(quantum) = request.quantum {
            plugin.push(format!(",quantum={}", quantum.as_nanos()));
        }
        if matches!(request.streams, Streams::Terminal(_)) {
            plugin.push(",paced=on");
        }
        Ok(Self { plugin, model: file, report: memory(c"report")?, mailbox, pmu })
    }

    /// Adds the plugin and its files to the parts of a machine. The descriptors are those of the
    /// program's standard input, output and error, and of the control socket.
    pub fn add_to(&self, parts: &mut Parts, descriptors: [i32; 4]) {
        let mut plugin = self.plugin.clone();
        let files = [("model", &self.model), ("report", &self.report), ("mailbox", &self.mailbox)];
        for (name, file) in
            files.into_iter().chain(self.pmu.as_ref().map(|(file, _)| ("pmu", file)))
        {
            plugin.push(format!(",{name}={}", path_of(file).display()));
        }
        plugin.push(format!(",streams={}", descriptors.map(|d| d.to_string()).join(":")));
        parts.plugin = plugin;
        parts.shared = [(path_of(&self.mailbox), mailbox::BYTES)].into();
        parts.shared.extend(self.pmu.as_ref().map(|(file, bytes)| (path_of(file), *bytes)));
    }

    /// Reads the report, after QEMU has ended; `None` if accesses were not modelled.
    pub fn report(mut self) -> Result<Option<Report>, LabError> {
        if self.pmu.is_none() {
            return Ok(None);
        }
        let mut text = String::new();
        self.report
            .rewind()
            .and_then(|()| self.report.read_to_string(&mut text))
            .map_err(LabError::host("read the report"))?;
        serde_json::from_str(&text).map(Some).map_err(LabError::host("read the plugin's report"))
    }
}
