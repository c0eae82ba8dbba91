(** * The Laplace curve

    Half of [e^t] below zero and [1 - e^(-t)/2] above.  Its slope is the smaller of
    [f] and [1 - f] ([laplace_slope]).  The threshold is found without a search: the
    scores above it are those at which the sum of the shares would be below [k], and
    then a quadratic equation gives it in a form that subtracts no nearly equal numbers
    ([laplace_threshold]); in order of the scores those above it come first, so that a
    binary search finds them ([laplace_count]).  The square root in it is the sum of the
    slopes ([laplace_root]). *)

From Coq Require Import Reals Lra Lia Arith.
From Coquelicot Require Import Coquelicot.
From TopK Require Import Sums Selection Exponential Derivative.
Open Scope R_scope.

Definition laplace (t : R) :=
  if Rle_dec t 0 then exp t / 2 else 1 - exp (- t) / 2.

Lemma laplace_neg t : t <= 0 -> laplace t = exp t / 2.
Proof. intros H; unfold laplace; destruct (Rle_dec t 0); [reflexivity|lra]. Qed.

Lemma laplace_pos t : 0 <= t -> laplace t = 1 - exp (- t) / 2.
Proof.
  intros H; unfold laplace; destruct (Rle_dec t 0); [|reflexivity].
  replace t with 0 by lra; rewrite Ropp_0, exp_0; field.
Qed.

Lemma laplace_opp t : laplace (- t) = 1 - laplace t.
Proof.
  destruct (Rle_or_lt t 0) as [H|H].
  - rewrite laplace_pos, laplace_neg, Ropp_involutive by lra; ring.
  - rewrite laplace_neg, laplace_pos by lra; ring.
Qed.

Theorem laplace_strict : strict laplace.
Proof.
  assert (Hn : forall s t, s < t <= 0 -> laplace s < laplace t).
  { intros s t H; rewrite !laplace_neg by lra.
    pose proof (exp_increasing s t ltac:(lra)); lra. }
  assert (Hp : forall s t, 0 <= s < t -> laplace s < laplace t).
  { intros s t H; pose proof (Hn (- t) (- s) ltac:(lra)); rewrite !laplace_opp in H0; lra. }
  intros s t H; destruct (Rle_or_lt t 0) as [Ht|Ht]; [apply Hn; lra|].
  destruct (Rle_or_lt 0 s) as [Hs|Hs]; [apply Hp; lra|].
  apply Rlt_trans with (laplace 0); [apply Hn; lra|apply Hp; lra].
Qed.

(** ** Its slope *)

Lemma laplace_half t : Rmin (laplace t) (1 - laplace t) = exp (- Rabs t) / 2.
Proof.
  destruct (Rle_or_lt t 0) as [H|H].
  - rewrite laplace_neg, Rabs_left1, Ropp_involutive by exact H.
    pose proof (exp_rising t 0 H); rewrite exp_0 in *; rewrite Rmin_left; lra.
  - rewrite laplace_pos, Rabs_pos_eq by lra.
    pose proof (exp_rising (- t) 0 ltac:(lra)); rewrite exp_0 in *; rewrite Rmin_right; lra.
Qed.

Lemma locally_lt (a b : R) : a < b -> locally a (fun t => t < b).
Proof.
  intros H; exists (mkposreal (b - a) ltac:(lra)); intros t Ht.
  unfold ball in Ht; simpl in Ht; unfold AbsRing_ball, abs, minus, plus, opp in Ht.
  simpl in Ht; apply Rabs_def2 in Ht; lra.
Qed.

Lemma locally_gt (a b : R) : b < a -> locally a (fun t => b < t).
Proof.
  intros H; exists (mkposreal (a - b) ltac:(lra)); intros t Ht.
  unfold ball in Ht; simpl in Ht; unfold AbsRing_ball, abs, minus, plus, opp in Ht.
  simpl in Ht; apply Rabs_def2 in Ht; lra.
Qed.

(** At 0 both halves have the slope one half; elsewhere only one of them counts. *)
Theorem laplace_slope t : is_derive laplace t (Rmin (laplace t) (1 - laplace t)).
Proof.
  rewrite laplace_half; destruct (Rtotal_order t 0) as [H|[->|H]].
  - apply (is_derive_ext_loc (fun t => exp t / 2)).
    + generalize (locally_lt t 0 H); apply filter_imp; intros s Hs.
      symmetry; apply laplace_neg; lra.
    + rewrite Rabs_left, Ropp_involutive by exact H; auto_derive; [exact I|field].
  - rewrite Rabs_R0, Ropp_0, exp_0; apply increment_derive; intros eps He.
    assert (De : is_derive exp 0 1).
    { replace 1 with (exp 0) by apply exp_0; apply is_derive_Reals, derivable_pt_lim_exp. }
    destruct (derive_increment exp 0 1 De eps He) as [delta [Hd H]].
    exists delta; split; [exact Hd|]; intros h Hh.
    assert (L0 : laplace 0 = 1 / 2) by (rewrite laplace_neg, exp_0; lra).
    rewrite !Rplus_0_l, L0; destruct (Rle_or_lt h 0) as [Hs|Hs].
    + specialize (H h Hh); rewrite Rplus_0_l, exp_0 in H.
      rewrite laplace_neg by exact Hs.
      replace (exp h / 2 - 1 / 2 - 1 / 2 * h) with ((exp h - 1 - 1 * h) * / 2) by field.
      rewrite Rabs_mult, (Rabs_pos_eq (/ 2)) by lra; pose proof (Rabs_pos h); nra.
    + specialize (H (- h)); rewrite Rabs_Ropp, Rplus_0_l, exp_0 in H; specialize (H Hh).
      rewrite laplace_pos by lra.
      replace (1 - exp (- h) / 2 - 1 / 2 - 1 / 2 * h)
        with (- ((exp (- h) - 1 - 1 * - h) * / 2)) by field.
      rewrite Rabs_Ropp, Rabs_mult, (Rabs_pos_eq (/ 2)) by lra; pose proof (Rabs_pos h); nra.
  - apply (is_derive_ext_loc (fun t => 1 - exp (- t) / 2)).
    + generalize (locally_gt t 0 H); apply filter_imp; intros s Hs.
      symmetry; apply laplace_pos; lra.
    + rewrite Rabs_pos_eq by lra; auto_derive; [exact I|field].
Qed.

Theorem laplace_curve : curve laplace.
Proof.
  split.
  - intros s t [H|<-]; [now apply Rlt_le, laplace_strict|lra].
  - intros t; apply (ex_derive_continuous laplace); eexists; apply laplace_slope.
  - apply (is_lim_ext_loc (fun t => / 2 * exp t)).
    { exists 0; intros t H; rewrite laplace_neg by lra; field. }
    replace (Finite 0) with (Rbar_mult (/ 2) 0) by (simpl; f_equal; ring).
    apply is_lim_scal_l, is_lim_exp_m.
  - apply (is_lim_ext_loc (fun t => 1 - / 2 * exp (- t))).
    { exists 0; intros t H; rewrite laplace_pos by lra; field. }
    replace (Finite 1) with (Finite (1 - / 2 * 0)) by (f_equal; ring).
    apply is_lim_minus'; [apply is_lim_const|].
    apply (is_lim_scal_l (fun t => exp (- t)) (/ 2) p_infty 0).
    apply (is_lim_comp exp Ropp p_infty 0 m_infty);
      [apply is_lim_exp_m|apply (is_lim_opp (fun t => t) p_infty p_infty), is_lim_id|].
    exists 0; intros; discriminate.
Qed.

(** ** The threshold *)

(** Score [i] counts as above if the shares, were [x i] the threshold, would sum to
    less than [k]. *)
Definition above n (x : nat -> R) k i : bool :=
  if Rlt_dec (∑_(h < n) laplace (x h - x i)) k then true else false.

(** The number of these scores, and the two sums of weights. *)
Definition count n x k := ∑_(i < n) (if above n x k i then 1 else 0).
Definition sumA n x k := ∑_(i < n) (if above n x k i then exp (- x i) else 0).
Definition sumB n x k := ∑_(i < n) (if above n x k i then 0 else exp (x i)).
Definition root n x k :=
  sqrt ((k - count n x k) ^ 2 + sumA n x k * sumB n x k).

Section Branch.

Variables (n : nat) (x : nat -> R) (k l : R).
Hypothesis Hl : threshold laplace n x k l.

Lemma above_spec i : (i < n)%nat ->
  if above n x k i then l < x i else x i <= l.
Proof.
  intros Hi; assert (Hn : (0 < n)%nat) by lia; unfold threshold in Hl.
  unfold above; destruct (Rlt_dec _ k) as [H|H].
  - destruct (Rlt_or_le l (x i)) as [H1|H1]; [exact H1|exfalso].
    pose proof (load_falls laplace n x (x i) l laplace_curve H1); lra.
  - destruct (Rle_or_lt (x i) l) as [H1|H1]; [exact H1|exfalso].
    pose proof (load_falls_strictly laplace n x l (x i) laplace_strict Hn H1); lra.
Qed.

Lemma sumA_nonneg : 0 <= sumA n x k.
Proof. apply sum_nonneg; intros i _; destruct (above n x k i); [apply Rlt_le, exp_pos|lra]. Qed.

Lemma sumB_nonneg : 0 <= sumB n x k.
Proof. apply sum_nonneg; intros i _; destruct (above n x k i); [lra|apply Rlt_le, exp_pos]. Qed.

(** Of each product of two weights, one from above the threshold and one from below, the
    logarithm is at most 0. *)
Lemma product_bound : sumA n x k * sumB n x k <= count n x k * (INR n - count n x k).
Proof.
  assert (Hz : 0 < exp l) by apply exp_pos.
  assert (HA : exp l * sumA n x k <= count n x k).
  { unfold sumA, count; rewrite <- sum_scal; apply sum_le; intros i Hi.
    pose proof (above_spec i Hi) as H; destruct (above n x k i); [|lra].
    rewrite <- exp_plus, <- exp_0; apply exp_rising; lra. }
  assert (HB : exp (- l) * sumB n x k <= INR n - count n x k).
  { apply Rle_trans with (∑_(i < n) (1 - (if above n x k i then 1 else 0)));
      [|unfold count; rewrite sum_minus, sum_const; lra].
    unfold sumB; rewrite <- sum_scal; apply sum_le; intros i Hi.
    pose proof (above_spec i Hi) as H; destruct (above n x k i); [lra|].
    rewrite <- exp_plus, Rminus_0_r, <- exp_0; apply exp_rising; lra. }
  assert (E : exp l * exp (- l) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
  replace (sumA n x k * sumB n x k)
    with (exp l * sumA n x k * (exp (- l) * sumB n x k))
    by (transitivity ((exp l * exp (- l)) * (sumA n x k * sumB n x k)); [ring|rewrite E; ring]).
  apply Rmult_le_compat; [| |exact HA|exact HB].
  - apply Rmult_le_pos; [lra|apply sumA_nonneg].
  - apply Rmult_le_pos; [apply Rlt_le, exp_pos|apply sumB_nonneg].
Qed.

Lemma balance : count n x k - exp l * sumA n x k / 2 + sumB n x k / exp l / 2 = k.
Proof.
  assert (Hz : 0 < exp l) by apply exp_pos.
  transitivity (∑_(i < n) laplace (x i - l)); [|exact Hl].
  unfold count, sumA, sumB, Rdiv.
  rewrite (sum_ext n (fun i => laplace (x i - l))
    (fun i => ((if above n x k i then 1 else 0)
     - / 2 * exp l * (if above n x k i then exp (- x i) else 0))
     + / exp l * / 2 * (if above n x k i then 0 else exp (x i)))).
  - rewrite sum_plus, sum_minus, !sum_scal; ring.
  - intros i Hi; pose proof (above_spec i Hi) as H; destruct (above n x k i).
    + rewrite laplace_pos by lra.
      replace (- (x i - l)) with (l + - x i) by ring; rewrite exp_plus; field; lra.
    + rewrite laplace_neg by lra.
      unfold Rminus; rewrite exp_plus, exp_Ropp; field; lra.
Qed.

(** The two halves of the mass. *)
Lemma root_halves : root n x k = (exp l * sumA n x k + sumB n x k / exp l) / 2.
Proof.
  assert (Hz : 0 < exp l) by apply exp_pos.
  assert (HA := sumA_nonneg); assert (HB := sumB_nonneg).
  assert (0 <= sumB n x k / exp l) by now apply Rle_div_r; [|rewrite Rmult_0_l].
  apply sqrt_lem_1.
  - apply Rplus_le_le_0_compat; [apply pow2_ge_0|now apply Rmult_le_pos].
  - assert (0 <= exp l * sumA n x k) by (apply Rmult_le_pos; lra); lra.
  - pose proof balance as Hb.
    replace (k - count n x k) with (sumB n x k / exp l / 2 - exp l * sumA n x k / 2) by lra.
    field; lra.
Qed.

End Branch.

(** The square root is the sum of the slopes, which the backward pass needs. *)
Theorem laplace_root n x k l : threshold laplace n x k l ->
  root n x k = ∑_(i < n) Rmin (laplace (x i - l)) (1 - laplace (x i - l)).
Proof.
  intros Hl; assert (Hz : 0 < exp l) by apply exp_pos.
  rewrite (root_halves n x k l Hl); unfold sumA, sumB, Rdiv.
  rewrite (sum_ext n (fun i => Rmin _ _)
    (fun i => / 2 * exp l * (if above n x k i then exp (- x i) else 0)
      + / exp l * / 2 * (if above n x k i then 0 else exp (x i)))).
  - rewrite sum_plus, !sum_scal; ring.
  - intros i Hi; rewrite laplace_half.
    pose proof (above_spec n x k l Hl i Hi) as H; destruct (above n x k i).
    + rewrite Rabs_pos_eq by lra.
      replace (- (x i - l)) with (l + - x i) by ring; rewrite exp_plus; field; lra.
    + rewrite Rabs_left1, Ropp_involutive by lra.
      unfold Rminus; rewrite exp_plus, exp_Ropp; field; lra.
Qed.

(** What is counted are the scores above the threshold.  That a score counts is decided by
    its own sum of shares, and a larger score counts too. *)
Theorem laplace_count n x k l : threshold laplace n x k l ->
  (forall i, (i < n)%nat -> (above n x k i = true <-> l < x i)) /\
  (forall i j, x i <= x j -> above n x k i = true -> above n x k j = true) /\
  sumA n x k * sumB n x k <= count n x k * (INR n - count n x k).
Proof.
  intros Hl; split; [|split; [|exact (product_bound n x k l Hl)]].
  - intros i Hi; pose proof (above_spec n x k l Hl i Hi) as H.
    destruct (above n x k i); split; intros H1; try reflexivity; try discriminate; lra.
  - intros i j H; unfold above; destruct (Rlt_dec _ k) as [Hi|]; [intros _|discriminate].
    destruct (Rlt_dec _ k) as [|Hj]; [reflexivity|exfalso].
    pose proof (load_falls laplace n x (x i) (x j) laplace_curve H); lra.
Qed.

(** The quadratic equation for [e^l]. *)
Theorem laplace_quadratic n x k l : threshold laplace n x k l ->
  sumA n x k * exp l ^ 2 + 2 * (k - count n x k) * exp l - sumB n x k = 0.
Proof.
  intros Hl; assert (Hz : 0 < exp l) by apply exp_pos.
  pose proof (balance n x k l Hl) as Hb.
  replace (k - count n x k) with (sumB n x k / exp l / 2 - exp l * sumA n x k / 2) by lra.
  field; lra.
Qed.

(** With [d = k - m], the positive root is [B / (W + d)], which is [(W - d) / A] too;
    each is used where it adds. *)
Theorem laplace_threshold n x k l : 0 < k < INR n ->
  let d := k - count n x k in
  threshold laplace n x k l <->
    l = if Rle_dec 0 d then ln (sumB n x k / (root n x k + d))
        else ln ((root n x k + Rabs d) / sumA n x k).
Proof.
  intros Hk d.
  assert (H1 : forall l, threshold laplace n x k l ->
    l = if Rle_dec 0 d then ln (sumB n x k / (root n x k + d))
        else ln ((root n x k + Rabs d) / sumA n x k)).
  { clear l; intros l Hl; assert (Hz : 0 < exp l) by apply exp_pos.
    assert (HA := sumA_nonneg n x k); assert (HB := sumB_nonneg n x k).
    assert (HBz : 0 <= sumB n x k / exp l) by now apply Rle_div_r; [|rewrite Rmult_0_l].
    assert (HAz : 0 <= exp l * sumA n x k) by (apply Rmult_le_pos; lra).
    assert (HR := root_halves n x k l Hl).
    assert (Hd : d = (sumB n x k / exp l - exp l * sumA n x k) / 2).
    { pose proof (balance n x k l Hl) as Hb; unfold d; lra. }
    destruct (Rle_dec 0 d) as [H|H].
    - (* some score is not above, or the count would be [n], more than [k] *)
      assert (HBp : 0 < sumB n x k).
      { destruct HB as [HB|HB]; [exact HB|exfalso].
        assert (Hc : count n x k = INR n); [|unfold d in H; lra].
        unfold count; rewrite <- (Rmult_1_r (INR n)), <- sum_const; apply sum_ext.
        intros i Hi; destruct (above n x k i) eqn:Ha; [reflexivity|exfalso].
        assert (Ht : (if above n x k i then 0 else exp (x i)) <= sumB n x k).
        { apply (term_le_sum n (fun i => if above n x k i then 0 else exp (x i))); auto.
          intros j _; destruct (above n x k j); [lra|apply Rlt_le, exp_pos]. }
        rewrite Ha in Ht; pose proof (exp_pos (x i)); lra. }
      replace (sumB n x k / (root n x k + d)) with (exp l); [now rewrite ln_exp|].
      replace (root n x k + d) with (sumB n x k / exp l) by lra; field; lra.
    - rewrite (Rabs_left d) by lra.
      assert (HAp : sumA n x k <> 0).
      { intros E; rewrite E, Rmult_0_r in Hd; lra. }
      replace ((root n x k + - d) / sumA n x k) with (exp l); [now rewrite ln_exp|].
      replace (root n x k + - d) with (exp l * sumA n x k) by lra; field; exact HAp. }
  split; [apply H1|intros ->].
  destruct (threshold_exists laplace n x k laplace_curve Hk) as [l' Hl'].
  now rewrite <- (H1 l' Hl').
Qed.

(** The derivative of the shares, from the shares alone. *)
Theorem laplace_jacobian n x k (l : R -> R) j : (j < n)%nat ->
  (forall t, threshold laplace n (move x j t) k (l t)) ->
  let p t i := laplace (move x j t i - l t) in
  let w i := Rmin (p (x j) i) (1 - p (x j) i) in
  forall i, (i < n)%nat ->
    is_derive (fun t => p t i) (x j)
              (w i * ((if Nat.eqb i j then 1 else 0) - w j / ∑_(h < n) w h)).
Proof.
  intros Hj Hl p w i Hi.
  apply (share_partial_derivative laplace n x k l w j laplace_curve Hj Hl); [| |exact Hi].
  - intros h Hh; unfold w, p.
    replace (move x j (x j) h) with (x h)
      by (unfold move; destruct (Nat.eqb_spec h j) as [->|_]; reflexivity).
    apply laplace_slope.
  - apply sum_pos; [lia|]; intros h _; unfold w, p; rewrite laplace_half.
    pose proof (exp_pos (- Rabs (move x j (x j) h - l (x j)))); lra.
Qed.
