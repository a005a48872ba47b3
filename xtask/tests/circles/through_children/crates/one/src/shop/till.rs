pub(crate) struct Till;
