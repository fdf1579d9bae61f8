//! QEMU plugin (libnumapilot_lab_plugin.so): shows every memory access of the guest to the
//! timing model of `numapilot-lab-model`.
