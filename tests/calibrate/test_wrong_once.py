"""What calibration once had wrong, and the test that fails where it is so again."""

import re

import pytest
from support.paths import ROOT

CUDA = "calibrate/sweep/test_cuda.py"
ASSEMBLE = "calibrate/sweep/test_assemble.py"
CALIBRATED = "planner/search/test_calibrated.py"
VALIDATION = "planner/questions/validation/test_validation.py"
SEEN_BY = {
    # Wrong answers on a GPU
    "train --measure compared steps in one arithmetic with an epoch in another": (
        CUDA,
        "the_steps_of_train_measure_are_those_of_calibration",
    ),
    "no regime was PyTorch as it comes": (CUDA, "every_point_says_its_regime"),
    "plans took 0.8 GB for what a process was seen to hold": (
        CALIBRATED,
        "a_plan_holds_the_memory_that_a_process_was_seen_to_hold",
    ),
    "the context was read before libraries had loaded their kernels": (
        CUDA,
        "memory_is_of_tensors_of_the_allocator_and_of_the_context",
    ),
    "the end of memory was taken for a failure": (
        "calibrate/devices/test_device.py",
        "texts_that_only_the_end_of_memory_has",
    ),
    "no engine for a convolution, on a full GPU, was taken for a failure": (
        "calibrate/devices/test_device.py",
        "a_missing_engine_is_the_end_of_memory_where_the_gpu_was_crowded",
    ),
    "clocks and reasons were read when the GPU was idle": (CUDA, "clocks_watts_and_reasons_are_those_of_the_work"),
    "the first run that was told was the second, and nobody read it": (
        "calibrate/sweep/test_used.py",
        "every_figure_is_read_by_something",
    ),
    "boxes of a detector were copied to the GPU one by one": (
        CUDA,
        "the_boxes_of_a_detector_are_made_where_the_pictures_are",
    ),
    "overlap was that of two threads of one process": (
        CUDA,
        "a_batch_and_a_load_beside_it_overlap_as_far_as_they_do",
    ),
    # Dead ends, and what misleads
    "--resume never repeated what failed": ("calibrate/sweep/test_journal.py", "resume_measures_again_what_failed"),
    "models that set the newer TF32 switches failed": (
        "calibrate/sweep/test_measure.py",
        "a_model_that_sets_the_newer_switches_is_measured",
    ),
    "the likely cause never looked at the model whose figure errs": (
        VALIDATION,
        "run_times_of_the_model_that_errs_are_named_before_those_that_cost_more",
    ),
    "the harness was not simulated": (VALIDATION, "the_harness_of_the_rehearsals_is_allowed_for"),
    "two GPUs of a kind, or two drivers, could not stand together": (
        "calibrate/sessions/test_join.py",
        "cards_and_drivers_may_differ_where_figures_agree_and_are_named",
    ),
    "a batch was compiled for its memory and again for its time": (
        CUDA,
        "it_is_compiled_once_for_memory_and_time_of_a_batch",
    ),
    "a dry run did not know what compiling takes": (
        "calibrate/sweep/test_sweep.py",
        "a_dry_run_knows_what_compiling_takes",
    ),
    "the sweep printed a median, the profile held a mean": (
        ASSEMBLE,
        "the_sweep_prints_the_figure_that_the_profile_will_have",
    ),
    "one hiccup tripled a point": (ASSEMBLE, "a_hiccup_moves_no_figure_and_is_a_doubt"),
    "models for GPUs alone were run on the processor first": (CUDA, "a_model_for_gpus_alone_is_never_run_elsewhere"),
    "each point copied the model on the host": (
        CUDA,
        "half_precision_makes_no_copy_where_the_weights_are_so_already",
    ),
    "a model of one's own got one tensor of floats": (
        "calibrate/sweep/test_any_model.py",
        "models_of_hugging_face_become_profiles",
    ),
    "torch for GPUs of AMD was said to be for CPUs": (
        "calibrate/devices/test_doctor.py",
        "a_torch_for_gpus_of_amd_is_refused_by_that_name",
    ),
    "provenance lacked what the environment changes": (CUDA, "provenance_knows_what_the_environment_changes"),
    "the picture of flat memory was empty: the line lay on the frame": (
        "calibrate/devices/test_memory_log.py",
        "memory_that_does_not_change_is_seen_inside_the_frame",
    ),
    "a plan of inference repeated doubts about training": (
        CALIBRATED,
        "a_plan_of_inference_repeats_no_doubt_about_training",
    ),
    "a GPU whose UUID torch does not tell lost driver and power": (
        CUDA,
        "provenance_and_probes_know_the_gpu_whatever_torch_tells",
    ),
}
"""File and name of the test. Each was seen to fail with the mistake put back."""


@pytest.mark.parametrize("wrong", SEEN_BY)
def test_what_went_wrong_has_its_test(wrong: str) -> None:
    file, name = SEEN_BY[wrong]
    assert re.search(rf"^def test_{name}\(", (ROOT / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE)
