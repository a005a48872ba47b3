//! The contract of `Store`, run through every implementation.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod accounts;
mod artifacts;
mod decisions;
mod executions;
mod given;
mod journal;
mod secrets;
mod shapes;
mod tools;

use coracle_store::{Home, KeySource, MemoryStore, SqliteStore, Store};
use std::sync::Arc;
use tempfile::TempDir;

/// A fresh store, and what must live as long.
struct Fresh {
    store: Arc<dyn Store>,
    _folder: Option<TempDir>,
}

fn memory() -> Fresh {
    Fresh { store: Arc::new(MemoryStore::new()), _folder: None }
}

async fn sqlite() -> Fresh {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&Home::new(folder.path()), KeySource::File).await.unwrap();
    Fresh { store: Arc::new(store), _folder: Some(folder) }
}

/// Each part of the contract as one test for each store.
macro_rules! contract {
    ($($module:ident :: $part:ident),* $(,)?) => {
        mod in_memory { $( #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $part() { crate::$module::$part(crate::memory().store).await; } )* }
        mod in_sqlite { $( #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $part() {
                let fresh = crate::sqlite().await;
                crate::$module::$part(std::sync::Arc::clone(&fresh.store)).await;
            } )* }
    };
}

contract!(
    artifacts::the_same_name_again_is_a_new_version,
    artifacts::artifacts_are_paged_from_the_last_changed,
    artifacts::artifacts_of_users_are_apart,
    artifacts::a_version_or_all_are_deleted_and_no_number_comes_back,
    artifacts::artifacts_beyond_the_cap_are_not_added,
    tools::tools_come_back_as_they_were_put,
    tools::tools_of_owners_and_servers_are_apart,
    tools::a_list_that_is_too_long_changes_nothing,
    shapes::a_shape_is_written_only_at_the_version_that_was_read,
    shapes::of_many_writers_one_wins,
    shapes::no_increment_is_lost,
    shapes::shapes_of_owners_and_tools_are_apart,
    shapes::a_shape_that_is_too_large_changes_nothing,
    shapes::names_are_any_text,
    shapes::names_that_cannot_be_keys_are_refused,
    decisions::a_decision_is_remembered_and_forgotten,
    decisions::decisions_of_users_are_apart,
    decisions::a_server_that_is_gone_is_forgotten_by_all,
    secrets::a_secret_comes_back_and_goes,
    secrets::secrets_of_owners_are_apart,
    secrets::a_secret_that_is_too_long_changes_nothing,
    executions::executions_come_back_as_they_were_recorded,
    executions::executions_are_paged_from_the_newest,
    executions::executions_of_users_are_apart,
    executions::an_execution_that_is_too_large_changes_nothing,
    executions::only_the_newest_executions_stay,
    executions::an_execution_is_there_while_it_runs_and_its_end_is_final,
    executions::as_many_executions_stay_as_are_wanted,
    journal::a_label_names_one_session_until_it_has_ended,
    journal::of_many_who_open_a_label_all_get_the_same_session,
    journal::a_task_is_there_from_its_beginning_and_ends_once,
    journal::sessions_of_users_are_apart,
    journal::nothing_runs_in_a_session_that_has_ended,
    journal::a_deleted_session_is_gone_unless_something_runs_in_it,
    journal::the_newest_checkpoint_counts,
    journal::a_task_that_is_too_large_changes_nothing,
    journal::only_the_newest_tasks_and_sessions_stay,
    journal::a_session_that_may_be_alive_stays_however_many_there_are,
    accounts::nothing_is_left_of_a_deleted_user,
    accounts::people_come_back_as_they_were_added,
    accounts::nobody_takes_the_place_of_another,
    accounts::keys_are_their_owners_and_are_revoked_for_good,
    accounts::sessions_begin_and_end,
    accounts::a_link_signs_in_once_whoever_comes_at_the_same_time,
    accounts::whoever_is_shut_out_has_no_way_in,
    accounts::a_key_falls_with_the_one_that_made_it,
    accounts::a_user_takes_everything_along_to_another_name,
    accounts::a_name_that_is_taken_stays,
);
