(** * The logistic curve

    It satisfies all that the other files assume ([logistic_curve],
    [logistic_strict]); its slope is [p (1 - p)] ([logistic_slope]), and so the
    derivative of the shares needs no hypothesis but a threshold
    ([logistic_jacobian]). *)

From Coq Require Import Reals Lra Lia Arith.
From Coquelicot Require Import Coquelicot.
From TopK Require Import Sums Selection Derivative.
Open Scope R_scope.

Definition logistic (t : R) := / (1 + exp (- t)).

Lemma logistic_denominator t : 0 < 1 + exp (- t).
Proof. pose proof (exp_pos (- t)); lra. Qed.

Theorem logistic_slope t : is_derive logistic t (logistic t * (1 - logistic t)).
Proof.
  assert (H := logistic_denominator t).
  unfold logistic; auto_derive; [lra|field; lra].
Qed.

Lemma logistic_unit t : 0 < logistic t < 1.
Proof.
  assert (H := logistic_denominator t); assert (He := exp_pos (- t)).
  unfold logistic; split; [now apply Rinv_0_lt_compat|].
  rewrite <- Rinv_1; apply Rinv_lt_contravar; lra.
Qed.

Theorem logistic_strict : strict logistic.
Proof.
  intros s t H; assert (Hs := logistic_denominator s); assert (Ht := logistic_denominator t).
  unfold logistic; apply Rinv_lt_contravar; [now apply Rmult_lt_0_compat|].
  pose proof (exp_increasing (- t) (- s) ltac:(lra)); lra.
Qed.

Theorem logistic_curve : curve logistic.
Proof.
  split.
  - intros s t [H|<-]; [now apply Rlt_le, logistic_strict|lra].
  - intros t; apply (ex_derive_continuous logistic); eexists; apply logistic_slope.
  - apply (is_lim_ext (fun t => exp t * / (1 + exp t))).
    { intros t; unfold logistic; rewrite exp_Ropp; field; pose proof (exp_pos t); lra. }
    replace (Finite 0) with (Finite (0 * / (1 + 0))) by (f_equal; ring).
    apply (is_lim_mult _ _ _ 0 (/ (1 + 0))); [apply is_lim_exp_m| |exact I].
    apply (is_lim_inv _ _ (1 + 0)); [|intros E; injection E; lra].
    apply is_lim_plus'; [apply is_lim_const|apply is_lim_exp_m].
  - replace (Finite 1) with (Finite (/ (1 + 0))) by (f_equal; field).
    apply (is_lim_inv _ _ (1 + 0)); [|intros E; injection E; lra].
    apply is_lim_plus'; [apply is_lim_const|].
    apply (is_lim_comp exp Ropp p_infty 0 m_infty);
      [apply is_lim_exp_m|apply (is_lim_opp (fun t => t) p_infty p_infty), is_lim_id|].
    exists 0; intros; discriminate.
Qed.

(** For every real budget between 0 and [n] the threshold exists and is unique. *)
Theorem logistic_threshold n x k : 0 < k < INR n -> exists! l, threshold logistic n x k l.
Proof.
  intros Hk; destruct (threshold_exists logistic n x k logistic_curve Hk) as [l Hl].
  exists l; split; [exact Hl|]; intros l' Hl'.
  apply (threshold_unique logistic n x k); auto; [apply logistic_strict|].
  apply INR_lt; simpl; lra.
Qed.

(** The derivative of the shares, from the shares alone. *)
Theorem logistic_jacobian n x k (l : R -> R) j : (j < n)%nat ->
  (forall t, threshold logistic n (move x j t) k (l t)) ->
  let p t i := logistic (move x j t i - l t) in
  let w i := p (x j) i * (1 - p (x j) i) in
  forall i, (i < n)%nat ->
    is_derive (fun t => p t i) (x j)
              (w i * ((if Nat.eqb i j then 1 else 0) - w j / ∑_(h < n) w h)).
Proof.
  intros Hj Hl p w i Hi.
  apply (share_partial_derivative logistic n x k l w j logistic_curve Hj Hl); [| |exact Hi].
  - intros h Hh; unfold w, p.
    replace (move x j (x j) h) with (x h)
      by (unfold move; destruct (Nat.eqb_spec h j) as [->|_]; reflexivity).
    apply logistic_slope.
  - apply sum_pos; [lia|]; intros h _; unfold w, p.
    pose proof (logistic_unit (move x j (x j) h - l (x j))); nra.
Qed.
