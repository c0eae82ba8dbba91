(** * All thresholds of a row at whole budgets

    Let [g i] be the sum of the shares with the threshold at the score [x i].  A score
    lies above the threshold of a whole budget [j] if and only if the integer part of
    [g i] is less than [j] ([counted_above]).  So the integer parts alone tell how many
    scores lie above each threshold ([counted_number]), and the thresholds at or above a
    score have the budgets 1 to the integer part ([counted_place]).  For the Laplace
    curve the sum of the slopes at a threshold is then a root of sums over the scores
    above and below, each relative to the score next to the threshold
    ([counted_slopes]); these sums are linear recurrences ([decayed_sum]).  For the curve
    [min(1, e^t)], which does not rise above 0, the count is the same
    ([clipped_counted_above]), and the sum of the slopes is what the scores above leave
    of the budget ([clipped_counted_slopes]). *)

From Coq Require Import Reals Lra Lia Arith.
From TopK Require Import Sums Selection Laplace Exponential.
Open Scope R_scope.

(** The sum of the shares with the threshold at the score [x i]. *)
Definition level f n (x : nat -> R) i := ∑_(h < n) f (x h - x i).

(** [m] is the integer part of the real number [g]. *)
Definition integer_part (g : R) (m : nat) := INR m <= g < INR m + 1.

(** A whole number is larger than [g] if it is larger than the integer part of [g]. *)
Lemma integer_part_lt g m j : integer_part g m -> (g < INR j <-> (m < j)%nat).
Proof.
  intros [H1 H2]; split; intros H.
  - apply INR_lt; lra.
  - apply Rlt_le_trans with (INR m + 1); [exact H2|].
    rewrite <- S_INR; apply le_INR; lia.
Qed.

(** The sum of the shares falls strictly in the threshold, so that [x i] is above the
    threshold where the sum at [x i] is below the budget. *)
Lemma level_above f n x k l i : curve f -> strict f -> (i < n)%nat ->
  threshold f n x k l -> (l < x i <-> level f n x i < k).
Proof.
  intros Hf Hs Hi Hl; assert (Hn : (0 < n)%nat) by lia; unfold threshold in Hl.
  unfold level; split; intros H.
  - rewrite <- Hl; apply (load_falls_strictly f n x l (x i) Hs Hn H).
  - destruct (Rlt_or_le l (x i)) as [H1|H1]; [exact H1|exfalso].
    pose proof (load_falls f n x (x i) l Hf H1); lra.
Qed.

Theorem counted_above f n x j l i m : curve f -> strict f -> (i < n)%nat ->
  threshold f n x (INR j) l -> integer_part (level f n x i) m ->
  (l < x i <-> (m < j)%nat).
Proof.
  intros Hf Hs Hi Hl Hm.
  rewrite (level_above f n x (INR j) l i Hf Hs Hi Hl); now apply integer_part_lt.
Qed.

(** The number of scores above a threshold, from the integer parts [G]. *)
Theorem counted_number f n x j l G : curve f -> strict f ->
  threshold f n x (INR j) l ->
  (forall i, (i < n)%nat -> integer_part (level f n x i) (G i)) ->
  ∑_(i < n) (if Rlt_dec l (x i) then 1 else 0) =
  ∑_(i < n) (if Nat.ltb (G i) j then 1 else 0).
Proof.
  intros Hf Hs Hl HG; apply sum_ext; intros i Hi.
  pose proof (counted_above f n x j l i (G i) Hf Hs Hi Hl (HG i Hi)) as H.
  destruct (Rlt_dec l (x i)) as [H1|H1]; destruct (Nat.ltb_spec (G i) j) as [H2|H2];
    try reflexivity; exfalso; [apply H in H1; lia|apply H1, H, H2].
Qed.

(** The thresholds [l 1, ..., l (n - 1)] at or above a score are the first [m]. *)
Theorem counted_place f n x l i m : curve f -> strict f -> (i < n)%nat ->
  (forall j, (0 < j < n)%nat -> threshold f n x (INR j) (l j)) ->
  integer_part (level f n x i) m ->
  forall j, (0 < j < n)%nat -> (x i <= l j <-> (j <= m)%nat).
Proof.
  intros Hf Hs Hi Hl Hm j Hj.
  pose proof (counted_above f n x j (l j) i m Hf Hs Hi (Hl j Hj) Hm) as H.
  split; intros H1.
  - destruct (le_lt_dec j m) as [H2|H2]; [exact H2|apply H in H2; lra].
  - destruct (Rle_or_lt (x i) (l j)) as [H2|H2]; [exact H2|apply H in H2; lia].
Qed.

(** ** The curve that is 1 from 0 on

    It has only one threshold for each of these budgets, and that is enough. *)
Theorem clipped_counted_above n x j l i m : (i < n)%nat -> (0 < j < n)%nat ->
  threshold clipped n x (INR j) l -> integer_part (level clipped n x i) m ->
  (l < x i <-> (m < j)%nat).
Proof.
  intros Hi Hj Hl Hm; rewrite <- (integer_part_lt _ _ j Hm); unfold level.
  assert (Hk : 0 < INR j < INR n) by (split; [apply lt_0_INR|apply lt_INR]; lia).
  split; intros H.
  - pose proof (load_falls clipped n x l (x i) clipped_curve (Rlt_le _ _ H)) as H1.
    rewrite Hl in H1; destruct H1 as [H1|H1]; [exact H1|exfalso].
    pose proof (clipped_unique n x (INR j) l (x i) Hk Hl H1); lra.
  - destruct (Rlt_or_le l (x i)) as [H1|H1]; [exact H1|exfalso].
    pose proof (load_falls clipped n x (x i) l clipped_curve H1) as H2.
    rewrite Hl in H2; lra.
Qed.

(** The slope is 0 above the threshold, and the share itself at or below it. *)
Theorem clipped_counted_slopes n x k l : threshold clipped n x k l ->
  ∑_(i < n) (if Rlt_dec l (x i) then 0 else exp (x i - l)) =
  k - ∑_(i < n) (if Rlt_dec l (x i) then 1 else 0).
Proof.
  intros Hl; rewrite <- Hl, <- sum_minus; apply sum_ext; intros i _.
  destruct (Rlt_dec l (x i)) as [H|H].
  - rewrite clipped_pos by lra; ring.
  - rewrite clipped_neg by lra; ring.
Qed.

(** ** The slopes at a threshold of the Laplace curve *)

(** The sums over the scores above, relative to [u], and below, relative to [v]. *)
Definition higher n x k u :=
  ∑_(i < n) (if above n x k i then exp (u - x i) else 0).
Definition lower n x k v :=
  ∑_(i < n) (if above n x k i then 0 else exp (x i - v)).

(** The product of both sums does not depend on what they are relative to, but for one
    exponential of the distance [u - v]. *)
Theorem counted_slopes n x k l u v : threshold laplace n x k l ->
  ∑_(i < n) Rmin (laplace (x i - l)) (1 - laplace (x i - l)) =
  sqrt ((k - count n x k) ^ 2 + higher n x k u * lower n x k v * exp (v - u)).
Proof.
  intros Hl; rewrite <- (laplace_root n x k l Hl); unfold root; do 2 f_equal.
  assert (HA : higher n x k u = exp u * sumA n x k).
  { unfold higher, sumA; rewrite <- sum_scal; apply sum_ext; intros i _.
    destruct (above n x k i); [unfold Rminus; apply exp_plus|ring]. }
  assert (HB : lower n x k v = exp (- v) * sumB n x k).
  { unfold lower, sumB; rewrite <- sum_scal; apply sum_ext; intros i _.
    destruct (above n x k i); [ring|].
    replace (x i - v) with (- v + x i) by ring; apply exp_plus. }
  rewrite HA, HB; unfold Rminus; rewrite exp_plus, !exp_Ropp; field.
  split; apply Rgt_not_eq, exp_pos.
Qed.

(** ** The recurrence *)

(** A sum with the decays from each score to the last one follows from the sum before. *)
Theorem decayed_sum i (x v : nat -> R) :
  ∑_(l < S (S i)) (v l * exp (x (S i) - x l)) =
  exp (x (S i) - x i) * ∑_(l < S i) (v l * exp (x i - x l)) + v (S i).
Proof.
  change (∑_(l < S (S i)) (v l * exp (x (S i) - x l)))
    with (∑_(l < S i) (v l * exp (x (S i) - x l)) + v (S i) * exp (x (S i) - x (S i))).
  replace (x (S i) - x (S i)) with 0 by ring; rewrite exp_0, Rmult_1_r; f_equal.
  rewrite <- sum_scal; apply sum_ext; intros l _.
  replace (x (S i) - x l) with ((x (S i) - x i) + (x i - x l)) by ring.
  rewrite exp_plus; ring.
Qed.
