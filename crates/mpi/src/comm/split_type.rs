//! What communicators are split by, beside colors (MPI-5.0 section 7.4.2).

use crate::Result;
use crate::group::UNDEFINED;

/// What `MPI_Comm_split_type` splits by. The numbers are the ABI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum SplitType {
    /// `MPI_COMM_TYPE_SHARED`: those that can share memory.
    Shared = 221,
    /// `MPI_COMM_TYPE_HW_UNGUIDED`: strictly smaller groups by the next level of hardware.
    HwUnguided = 222,
    /// `MPI_COMM_TYPE_HW_GUIDED`: by the hardware that the info key `mpi_hw_resource_type` names.
    HwGuided = 223,
    /// `MPI_COMM_TYPE_RESOURCE_GUIDED`: by that, or by the process set of the key `mpi_pset_name`.
    ResourceGuided = 224,
}

/// The info key that names hardware, and the one value of it that is known.
pub const RESOURCE_KEY: &str = "mpi_hw_resource_type";
pub const SHARED_MEMORY: &str = "mpi_shared_memory";

impl SplitType {
    /// The kind with this ABI value; `None` for `MPI_UNDEFINED`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: none.
    pub fn from_abi(value: i32) -> Result<Option<Self>> {
        Ok(match value {
            UNDEFINED => None,
            221 => Some(Self::Shared),
            222 => Some(Self::HwUnguided),
            223 => Some(Self::HwGuided),
            224 => Some(Self::ResourceGuided),
            _ => {
                return fail!(
                    ERR_ARG: "split_type={value}: allowed are MPI_COMM_TYPE_SHARED, MPI_COMM_TYPE_HW_UNGUIDED, \
                     MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_RESOURCE_GUIDED and MPI_UNDEFINED"
                );
            }
        })
    }
}
