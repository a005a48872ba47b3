use crate::shop::{
    self,
    till::Till,
};
