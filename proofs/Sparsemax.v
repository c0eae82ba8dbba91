(** * Sparsemax and the clip: Euclidean projections

    Sparsemax is the only point of the simplex nearest to the scores
    ([sparsemax_projection], from the identity [sparsemax_pythagoras]); its threshold
    exists, is unique and lies below the largest score by at least [1/n] and at most 1
    ([sparsemax_threshold]).  In the same way the operator of the clip is the projection
    onto the shares in [0, 1] with the sum [k] ([clip_projection]), and the only nearest
    point ([clip_nearest]). *)

From Coq Require Import Reals Lra Lia Arith.
From Coquelicot Require Import Coquelicot.
From TopK Require Import Sums Selection.
Open Scope R_scope.

Definition plus_part t := Rmax 0 t.

(** The points of the simplex. *)
Definition simplex n (q : nat -> R) :=
  (forall i, (i < n)%nat -> 0 <= q i) /\ ∑_(i < n) q i = 1.

(** [l] is the threshold, [p] the shares of sparsemax. *)
Definition sparsemax n (x : nat -> R) l (p : nat -> R) :=
  (forall i, (i < n)%nat -> p i = plus_part (x i - l)) /\ ∑_(i < n) p i = 1.

(** The squared distance. *)
Definition distance2 n (a b : nat -> R) := ∑_(i < n) (a i - b i) ^ 2.

Lemma plus_part_cases t : (0 <= t /\ plus_part t = t) \/ (t <= 0 /\ plus_part t = 0).
Proof.
  unfold plus_part; destruct (Rle_or_lt 0 t); [left|right]; split; try lra;
    [apply Rmax_right|apply Rmax_left]; lra.
Qed.

(** ** The projection *)

(** Expand the squares: [p - x] is [-l] plus the part [l - x] that is cut off, and the
    differences of [q] and [p] sum to zero. *)
Theorem sparsemax_pythagoras n x l p q : sparsemax n x l p -> simplex n q ->
  distance2 n q x = distance2 n p x + distance2 n q p
    + 2 * ∑_(i < n) plus_part (l - x i) * q i.
Proof.
  intros [Hp Hs] [_ Hq]; unfold distance2.
  rewrite (sum_ext n (fun i => (q i - x i) ^ 2) (fun i => (((p i - x i) ^ 2 + (q i - p i) ^ 2)
    + 2 * (plus_part (l - x i) * q i)) - 2 * l * (q i - p i))).
  - rewrite sum_minus, !sum_plus, !sum_scal, sum_minus, Hq, Hs; ring.
  - intros i Hi; rewrite (Hp i Hi).
    destruct (plus_part_cases (x i - l)) as [[H ->]|[H ->]],
             (plus_part_cases (l - x i)) as [[H' ->]|[H' ->]]; try ring;
      replace (x i) with l by lra; ring.
Qed.

Theorem sparsemax_projection n x l p : sparsemax n x l p ->
  simplex n p /\
  forall q, simplex n q ->
    distance2 n p x <= distance2 n q x /\
    (distance2 n q x <= distance2 n p x -> forall i, (i < n)%nat -> q i = p i).
Proof.
  intros H; pose proof H as [Hp Hs]; split.
  - split; [|exact Hs]; intros i Hi; rewrite Hp by exact Hi; apply Rmax_l.
  - intros q Hq; rewrite (sparsemax_pythagoras n x l p q H Hq).
    assert (H1 : 0 <= distance2 n q p) by (apply sum_nonneg; intros; apply pow2_ge_0).
    assert (H2 : 0 <= ∑_(i < n) plus_part (l - x i) * q i).
    { apply sum_nonneg; intros i Hi; apply Rmult_le_pos; [apply Rmax_l|now apply Hq]. }
    split; [lra|]; intros H3 i Hi.
    assert (E : 0 = (q i - p i) ^ 2).
    { apply (eq_of_sum_le n (fun _ => 0) (fun i => (q i - p i) ^ 2)); [| |exact Hi].
      - intros; apply pow2_ge_0.
      - fold (distance2 n q p); rewrite sum_zero; lra. }
    assert (q i - p i = 0) by nra; lra.
Qed.

(** ** The threshold *)

Lemma load_plus_strict n x l m j : (j < n)%nat -> l < m -> l < x j ->
  ∑_(i < n) plus_part (x i - m) < ∑_(i < n) plus_part (x i - l).
Proof.
  intros Hj H Hx; apply (sum_lt_one n _ _ j); [|exact Hj|].
  - intros i _; apply Rle_max_compat_l; lra.
  - destruct (plus_part_cases (x j - l)) as [[_ ->]|[? _]]; [|lra].
    apply Rmax_lub_lt; lra.
Qed.

Theorem sparsemax_threshold n x top : (top < n)%nat ->
  (forall i, (i < n)%nat -> x i <= x top) ->
  exists l, ∑_(i < n) plus_part (x i - l) = 1 /\
    x top - 1 <= l <= x top - 1 / INR n /\
    forall m, ∑_(i < n) plus_part (x i - m) = 1 -> m = l.
Proof.
  intros Hn Htop.
  assert (HN : 0 < INR n) by (apply lt_0_INR; lia).
  assert (Hcont : forall l, continuous (fun l => ∑_(i < n) plus_part (x i - l)) l).
  { intros l; apply (sum_continuous n (fun i l => plus_part (x i - l))); intros i _.
    apply (continuous_ext (fun l => ((x i - l) + Rabs (x i - l)) * / 2)).
    { intros s; destruct (plus_part_cases (x i - s)) as [[H ->]|[H ->]];
        [rewrite Rabs_pos_eq by exact H|rewrite Rabs_left1 by exact H]; lra. }
    apply (continuous_mult (fun l => (x i - l) + Rabs (x i - l)) (fun _ => / 2));
      [|apply continuous_const].
    assert (Hd : continuous (fun l : R => x i - l) l)
      by (apply (continuous_minus (fun _ => x i) (fun l => l));
          [apply continuous_const|apply continuous_id]).
    apply (continuous_plus (fun l => x i - l) (fun l => Rabs (x i - l))); [exact Hd|].
    apply (continuous_comp (fun l => x i - l) Rabs); [exact Hd|apply continuous_Rabs]. }
  (* at most [x top - 1] the largest share is 1 or more, from [x top - 1/n] on each is
     at most [1/n] *)
  destruct (IVT_gen (fun l => ∑_(i < n) plus_part (x i - l)) (x top - 1 / INR n) (x top - 1) 1)
    as [l [Hb Hl]].
  - intros l; apply continuity_pt_filterlim, Hcont.
  - split.
    + apply Rle_trans with (1 := Rmin_l _ _).
      apply Rle_trans with (∑_(i < n) 1 / INR n).
      * apply sum_le; intros i Hi; apply Rmax_lub; [|specialize (Htop i Hi); lra].
        apply Rlt_le, Rdiv_lt_0_compat; lra.
      * rewrite sum_const; right; field; lra.
    + apply Rle_trans with (2 := Rmax_r _ _).
      apply Rle_trans with (plus_part (x top - (x top - 1))).
      * apply Rle_trans with (x top - (x top - 1)); [lra|apply Rmax_r].
      * apply (term_le_sum n (fun i => plus_part (x i - (x top - 1)))); [|exact Hn].
        intros; apply Rmax_l.
  - assert (H1n : 1 / INR n <= 1).
    { apply Rle_div_l; [exact HN|]; rewrite Rmult_1_l; apply (le_INR 1); lia. }
    rewrite Rmin_right, Rmax_left in Hb by lra.
    assert (Hbelow : forall m, ∑_(i < n) plus_part (x i - m) = 1 -> m < x top).
    { intros m Hm; destruct (Rlt_or_le m (x top)) as [H|H]; [exact H|exfalso].
      assert (∑_(i < n) plus_part (x i - m) <= ∑_(i < n) 0); [|rewrite sum_zero in *; lra].
      apply sum_le; intros i Hi; apply Rmax_lub; [lra|specialize (Htop i Hi); lra]. }
    exists l; repeat split; try lra; intros m Hm.
    pose proof (Hbelow m Hm); pose proof (Hbelow l Hl).
    destruct (Rtotal_order m l) as [H'|[H'|H']]; [exfalso|exact H'|exfalso].
    + pose proof (load_plus_strict n x m l top Hn H' ltac:(lra)); lra.
    + pose proof (load_plus_strict n x l m top Hn H' ltac:(lra)); lra.
Qed.

(** ** The clip *)

Definition clip t := Rmin 1 (Rmax 0 t).

(** A formula without cases: [(|t| - |t - 1| + 1) / 2]. *)
Lemma clip_formula t : (Rabs t - Rabs (t - 1) + 1) * / 2 = clip t.
Proof.
  unfold clip; destruct (Rle_or_lt t 0) as [H|H].
  - rewrite Rmax_left, Rmin_right, !Rabs_left1 by lra; lra.
  - rewrite (Rmax_right 0) by lra; rewrite (Rabs_pos_eq t) by lra.
    destruct (Rle_or_lt t 1) as [H1|H1].
    + rewrite Rmin_right, Rabs_left1 by lra; lra.
    + rewrite Rmin_left, Rabs_pos_eq by lra; lra.
Qed.

Theorem clip_curve : curve clip.
Proof.
  split.
  - intros s t H; unfold clip; now apply Rle_min_compat_l, Rle_max_compat_l.
  - intros t; apply (continuous_ext _ _ _ clip_formula).
    apply (continuous_mult (fun t => Rabs t - Rabs (t - 1) + 1) (fun _ => / 2));
      [|apply continuous_const].
    apply (continuous_plus (fun t => Rabs t - Rabs (t - 1)) (fun _ => 1));
      [|apply continuous_const].
    apply (continuous_minus Rabs (fun t => Rabs (t - 1))); [apply continuous_Rabs|].
    apply (continuous_comp (fun t => t - 1) Rabs); [|apply continuous_Rabs].
    apply (continuous_minus (fun t : R => t) (fun _ => 1));
      [apply continuous_id|apply continuous_const].
  - apply (is_lim_ext_loc (fun _ => 0)); [|apply is_lim_const].
    exists 0; intros t H; unfold clip; rewrite Rmax_left, Rmin_right by lra; reflexivity.
  - apply (is_lim_ext_loc (fun _ => 1)); [|apply is_lim_const].
    exists 1; intros t H; unfold clip; rewrite Rmax_right, Rmin_left by lra; reflexivity.
Qed.

(** Shares of [k]. *)
Definition capped_simplex n k (q : nat -> R) :=
  (forall i, (i < n)%nat -> 0 <= q i <= 1) /\ ∑_(i < n) q i = k.

(** Term by term [x - p - l] pushes out of [0, 1] only where [p] is at its end. *)
Theorem clip_projection n x k p : shares clip n x k p ->
  capped_simplex n k p /\
  forall q, capped_simplex n k q ->
    distance2 n p x + distance2 n q p <= distance2 n q x.
Proof.
  intros H; assert (Hs := shares_sum clip n x k p H); destruct H as [l [_ Hp]].
  assert (Hc : forall t, 0 <= clip t <= 1).
  { intros t; unfold clip; split; [apply Rmin_glb; [lra|apply Rmax_l]|apply Rmin_l]. }
  split; [split; [|exact Hs]; intros i Hi; rewrite Hp by exact Hi; apply Hc|].
  intros q [Hq Hqs]; unfold distance2; rewrite <- sum_plus.
  assert (E : ∑_(i < n) (q i - x i) ^ 2 = ∑_(i < n) ((q i - x i) ^ 2 + 2 * l * (q i - p i)))
    by (rewrite sum_plus, sum_scal, sum_minus, Hqs, Hs; ring).
  rewrite E; apply sum_le; intros i Hi; specialize (Hq i Hi).
  rewrite Hp by exact Hi; unfold clip.
  destruct (Rle_or_lt (x i - l) 0) as [H|H].
  - rewrite Rmax_left, Rmin_right by lra; nra.
  - rewrite (Rmax_right 0) by lra; destruct (Rle_or_lt (x i - l) 1) as [H'|H'].
    + rewrite Rmin_right by lra; nra.
    + rewrite Rmin_left by lra; nra.
Qed.

(** The shares exist, and no other point is as near. *)
Theorem clip_nearest n x k : 0 < k < INR n ->
  exists p, shares clip n x k p /\ capped_simplex n k p /\
    forall q, capped_simplex n k q ->
      distance2 n p x <= distance2 n q x /\
      (distance2 n q x <= distance2 n p x -> forall i, (i < n)%nat -> q i = p i).
Proof.
  intros Hk; destruct (threshold_exists clip n x k clip_curve Hk) as [l Hl].
  exists (fun i => clip (x i - l)); set (p := fun i => clip (x i - l)).
  assert (Hs : shares clip n x k p) by (exists l; split; [exact Hl|reflexivity]).
  destruct (clip_projection n x k p Hs) as [Hc Hq].
  split; [exact Hs|split; [exact Hc|]]; intros q Hcq; specialize (Hq q Hcq).
  assert (H1 : 0 <= distance2 n q p) by (apply sum_nonneg; intros; apply pow2_ge_0).
  split; [lra|]; intros H3 i Hi.
  assert (E : 0 = (q i - p i) ^ 2).
  { apply (eq_of_sum_le n (fun _ => 0) (fun i => (q i - p i) ^ 2)); [| |exact Hi].
    - intros; apply pow2_ge_0.
    - fold (distance2 n q p); rewrite sum_zero; lra. }
  change (q i = p i); assert (q i - p i = 0) by nra; lra.
Qed.
