//! The contract of `Store`, tested with every implementation.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod accounts;
mod approvals;
mod artifacts;
mod conversations;
mod decisions;
mod executions;
mod given;
mod journal;
mod limit_use;
mod plans;
mod provenance;
mod runs;
mod secrets;
mod shapes;
mod token_use;
mod token_vault;
mod tools;

use coracle_store::{Home, KeySource, MemoryStore, SqliteStore, Store};
use std::sync::Arc;
use tempfile::TempDir;

/// A fresh store, and the data that must live as long.
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

/// Defines one test per part of the contract and store.
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
    approvals::approvals_are_returned_as_they_were_added,
    approvals::approvals_of_users_are_separate,
    approvals::approvals_name_the_user_whose_call_it_was,
    approvals::only_the_newest_approvals_are_kept,
    approvals::an_approval_that_is_too_large_changes_nothing,
    artifacts::the_same_name_again_is_a_new_version,
    artifacts::artifacts_are_paged_from_the_last_changed,
    artifacts::artifacts_of_users_are_separate,
    artifacts::a_version_or_all_are_deleted_and_numbers_are_not_reused,
    artifacts::artifacts_beyond_the_cap_are_not_added,
    limit_use::calls_are_charged_until_a_limit_is_used_up,
    limit_use::amounts_are_charged_all_or_none,
    limit_use::concurrent_calls_do_not_exceed_a_limit,
    token_use::tokens_are_counted_by_user_and_day,
    token_use::no_token_is_lost_and_no_count_overflows,
    token_use::old_token_counts_are_deleted,
    token_vault::values_are_returned_as_they_were_put,
    token_vault::vaults_of_users_are_separate,
    token_vault::nothing_is_left_of_a_deleted_vault,
    token_vault::a_rotated_vault_has_the_same_values,
    token_vault::old_values_are_deleted,
    token_vault::a_renamed_user_keeps_the_vault,
    token_vault::a_value_that_is_too_large_changes_nothing,
    tools::tools_are_returned_as_they_were_stored,
    tools::tools_of_owners_and_servers_are_separate,
    tools::a_list_that_is_too_long_changes_nothing,
    shapes::a_shape_is_written_only_at_the_version_that_was_read,
    shapes::exactly_one_of_many_writers_succeeds,
    shapes::no_increment_is_lost,
    shapes::shapes_of_owners_and_tools_are_separate,
    shapes::a_shape_that_is_too_large_changes_nothing,
    shapes::names_are_any_text,
    shapes::names_that_cannot_be_keys_are_rejected,
    decisions::a_decision_is_remembered_and_forgotten,
    decisions::decisions_of_users_are_separate,
    decisions::a_decision_can_be_bound_to_arguments,
    decisions::the_oldest_decision_about_arguments_is_forgotten,
    decisions::a_removed_server_is_forgotten_for_all_users,
    secrets::a_secret_is_returned_and_deleted,
    secrets::derived_keys_stay_the_same_and_differ_by_purpose,
    secrets::secrets_of_owners_are_separate,
    secrets::a_secret_that_is_too_long_changes_nothing,
    executions::executions_are_returned_as_they_were_recorded,
    executions::executions_are_paged_from_the_newest,
    executions::executions_of_users_are_separate,
    executions::an_execution_that_is_too_large_changes_nothing,
    executions::only_the_newest_executions_are_kept,
    executions::an_execution_is_there_while_it_runs_and_its_end_is_final,
    executions::the_number_of_kept_executions_can_be_set,
    plans::a_plan_is_run_once,
    plans::plans_of_users_are_separate,
    plans::a_renamed_user_keeps_plans,
    plans::the_newest_plans_are_kept,
    journal::a_label_names_one_session_until_it_has_ended,
    journal::concurrent_callers_with_a_label_get_the_same_session,
    journal::a_task_is_there_from_its_beginning_and_ends_once,
    journal::sessions_of_users_are_separate,
    journal::nothing_runs_in_a_session_that_has_ended,
    journal::a_deleted_session_is_gone_unless_something_runs_in_it,
    journal::the_newest_checkpoint_counts,
    journal::a_task_that_is_too_large_changes_nothing,
    journal::only_the_newest_tasks_and_sessions_are_kept,
    journal::a_session_that_may_be_alive_is_kept_however_many_there_are,
    provenance::sources_of_a_place_add_up,
    provenance::what_an_execution_may_bring_counts_until_it_is_settled,
    provenance::values_and_approvals_of_flows_belong_to_users,
    runs::a_run_is_there_from_its_beginning_and_ends_once,
    runs::a_conversation_has_one_run_at_a_time,
    runs::conversations_are_paged_from_the_last_changed,
    runs::calls_of_code_are_recorded_until_the_run_ends,
    runs::a_parked_call_is_taken_over_by_one_run,
    runs::runs_of_users_are_separate,
    runs::an_item_that_is_too_large_changes_nothing,
    runs::old_conversations_are_deleted_unless_a_run_is_under_way,
    conversations::a_run_that_a_later_one_continues_is_not_old,
    conversations::conversations_are_found_by_title_and_text,
    conversations::conversations_are_renamed_and_forked_for_their_owner_only,
    conversations::the_runs_of_a_conversation_are_paged_from_the_newest,
    conversations::a_queue_is_written_by_one_of_several_writers,
    conversations::queues_are_for_their_owner_and_go_with_their_conversation,
    accounts::nothing_is_left_of_a_deleted_user,
    accounts::users_are_returned_as_they_were_added,
    accounts::a_name_or_identity_cannot_be_taken_twice,
    accounts::keys_belong_to_their_owner_and_are_revoked_permanently,
    accounts::sessions_begin_and_end,
    accounts::a_link_signs_in_once_even_if_used_concurrently,
    accounts::a_disabled_user_cannot_sign_in,
    accounts::a_key_is_revoked_with_the_one_that_created_it,
    accounts::a_renamed_user_keeps_all_data,
    accounts::a_user_cannot_be_renamed_to_a_taken_name,
);
