//! Bounds-checked access to the guest's memory. Every address and length comes from the guest.

use super::errno::{Errno, Result};

/// The guest's linear memory during one call.
pub struct View<'a>(pub &'a mut [u8]);

impl View<'_> {
    pub fn bytes(&self, address: u32, len: u32) -> Result<&[u8]> {
        let start = address as usize;
        self.0.get(start..start + len as usize).ok_or(Errno::FAULT)
    }

    pub fn bytes_mut(&mut self, address: u32, len: u32) -> Result<&mut [u8]> {
        let start = address as usize;
        self.0.get_mut(start..start + len as usize).ok_or(Errno::FAULT)
    }

    pub fn write(&mut self, address: u32, bytes: &[u8]) -> Result<()> {
        let len = u32::try_from(bytes.len()).map_err(|_| Errno::FAULT)?;
        self.bytes_mut(address, len)?.copy_from_slice(bytes);
        Ok(())
    }

    pub fn read_u8(&self, address: u32) -> Result<u8> {
        Ok(self.array::<1>(address)?[0])
    }

    pub fn read_u16(&self, address: u32) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array(address)?))
    }

    pub fn read_u32(&self, address: u32) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(address)?))
    }

    pub fn read_u64(&self, address: u32) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(address)?))
    }

    pub fn write_u32(&mut self, address: u32, value: u32) -> Result<()> {
        self.write(address, &value.to_le_bytes())
    }

    pub fn write_u64(&mut self, address: u32, value: u64) -> Result<()> {
        self.write(address, &value.to_le_bytes())
    }

    /// A length of ours, as the guest's 32 bits.
    pub fn write_len(&mut self, address: u32, len: usize) -> Result<()> {
        self.write_u32(address, u32::try_from(len).map_err(|_| Errno::OVERFLOW)?)
    }

    fn array<const N: usize>(&self, address: u32) -> Result<[u8; N]> {
        let start = address as usize;
        let bytes = self.0.get(start..start + N).ok_or(Errno::FAULT)?;
        bytes.try_into().map_err(|_| Errno::FAULT)
    }

    /// The `index`th buffer of an iovec array.
    pub fn iovec(&self, array: u32, index: u32) -> Result<(u32, u32)> {
        let entry =
            array.checked_add(index.checked_mul(8).ok_or(Errno::FAULT)?).ok_or(Errno::FAULT)?;
        Ok((self.read_u32(entry)?, self.read_u32(entry.checked_add(4).ok_or(Errno::FAULT)?)?))
    }
}
