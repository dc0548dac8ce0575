use crate::error::{c_text, check, Result};
use crate::sys;
use crate::types::Device;
use std::ptr;

/// A stream of random numbers; ops without one draw from that of their device.
pub struct Generator(sys::fc_generator);

// SAFETY: the library locks a generator while it is drawn from
unsafe impl Send for Generator {}
unsafe impl Sync for Generator {}

impl Generator {
    pub fn new(device: Device, seed: u64) -> Result<Self> {
        let mut made = ptr::null_mut();
        let name = c_text(&device.to_string())?;
        check(unsafe { sys::fc_generator_new(name.as_ptr(), seed, &mut made) })?;
        Ok(Self(made))
    }
    /// Begins the stream anew.
    pub fn seed(&self, seed: u64) -> Result<()> {
        check(unsafe { sys::fc_generator_seed(self.0, seed) })
    }
    pub(crate) fn handle(&self) -> sys::fc_generator {
        self.0
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        unsafe { sys::fc_generator_release(self.0) }
    }
}

/// Seeds the generators that ops draw from when they are given none, of all devices.
pub fn manual_seed(seed: u64) -> Result<()> {
    check(unsafe { sys::fc_manual_seed(seed) })
}
