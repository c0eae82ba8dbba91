(** * The bracket that order statistics give

    The score at place [j] encloses the threshold: with [j > k] from below, with
    [j < k + 1] from above ([threshold_bracket]).  The bounds contain the inverse of the
    curve; where it has flat parts, its end is taken that makes them true. *)

From Coq Require Import Reals Lra Lia Arith.
From TopK Require Import Sums Selection HardLimit.
Open Scope R_scope.

(** [v] is the score at place [j]: at most [j - 1] scores exceed it, and at least [j]
    reach it. *)
Definition ranked n x (j : nat) v :=
  larger n x v + 1 <= INR j <= larger n x v + tied n x v.

(** Below: [j] scores have at least the share of [v].  Above: at most [j - 1] scores have
    more than the share of [v], and none more than 1. *)
Theorem threshold_bracket f n x k l j v : curve f -> 0 < k < INR n ->
  threshold f n x k l -> ranked n x j v ->
  (forall u, k < INR j -> (forall t, u < t -> k / INR j < f t) -> v - u <= l) /\
  (forall u, INR j < k + 1 ->
    (forall t, t < u -> f t < (k - INR j + 1) / (INR n - INR j + 1)) -> l <= v - u).
Proof.
  unfold threshold, ranked; intros Hf Hk Hl [Hj1 Hj2].
  set (a := larger n x v) in *; set (b := tied n x v) in *.
  assert (Hv := curve_bounds f Hf (v - l)).
  assert (Hlow : (a + b) * f (v - l) <= k).
  { rewrite <- Hl; unfold a, b, larger, tied; rewrite <- sum_plus, Rmult_comm, <- sum_scal.
    apply sum_le; intros i _; pose proof (curve_bounds f Hf (x i - l)).
    destruct (Rlt_dec v (x i)), (Req_EM_T (x i) v); try lra.
    - pose proof (rising f Hf (v - l) (x i - l) ltac:(lra)); lra.
    - rewrite e; lra. }
  assert (Hhigh : k <= a + (INR n - a) * f (v - l)).
  { assert (E : a + (INR n - a) * f (v - l)
      = ∑_(i < n) ((1 - f (v - l)) * (if Rlt_dec v (x i) then 1 else 0) + f (v - l)))
      by (rewrite sum_plus, sum_scal, sum_const; fold (larger n x v); fold a; ring).
    rewrite E, <- Hl; apply sum_le; intros i _; pose proof (curve_bounds f Hf (x i - l)).
    destruct (Rlt_dec v (x i)); [lra|].
    pose proof (rising f Hf (x i - l) (v - l) ltac:(lra)); lra. }
  split; intros u Hu Hinv.
  - destruct (Rle_or_lt (v - u) l) as [H|H]; [exact H|exfalso].
    specialize (Hinv (v - l) ltac:(lra)).
    apply (Rmult_lt_compat_r (INR j)) in Hinv; [|lra].
    replace (k / INR j * INR j) with k in Hinv by (field; lra).
    assert (INR j * f (v - l) <= (a + b) * f (v - l)) by (apply Rmult_le_compat_r; lra).
    lra.
  - destruct (Rle_or_lt l (v - u)) as [H|H]; [exact H|exfalso].
    specialize (Hinv (v - l) ltac:(lra)).
    apply (Rmult_lt_compat_r (INR n - INR j + 1)) in Hinv; [|lra].
    replace ((k - INR j + 1) / (INR n - INR j + 1) * (INR n - INR j + 1))
      with (k - INR j + 1) in Hinv by (field; lra).
    assert (a * (1 - f (v - l)) <= (INR j - 1) * (1 - f (v - l)))
      by (apply Rmult_le_compat_r; lra).
    lra.
Qed.
