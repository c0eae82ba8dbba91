(** * The derivative of the threshold and of the shares

    Where the curve is differentiable at the [n] arguments with slopes [w] that do not
    all vanish, threshold and shares are differentiable in Fréchet's sense, with the
    gradient [w / W] and the Jacobian [diag w - w w^T / W] ([shares_derivative]).  The
    partial derivatives follow ([share_partial_derivative]).  Nothing is assumed of the
    curve elsewhere, nor that nearby thresholds are unique. *)

From Coq Require Import Reals Lra Lia Arith.
From Coquelicot Require Import Coquelicot.
From TopK Require Import Sums Selection.
Open Scope R_scope.

(** ** What a derivative says about small increments *)

Lemma derive_increment (f : R -> R) a d : is_derive f a d -> forall eps, 0 < eps ->
  exists delta, 0 < delta /\
    forall h, Rabs h <= delta -> Rabs (f (a + h) - f a - d * h) <= eps * Rabs h.
Proof.
  intros H eps He; apply is_derive_Reals in H; destruct (H eps He) as [[delta Hd] Hlim].
  exists (delta / 2); split; [lra|]; intros h Hh; simpl in Hlim.
  destruct (Req_dec h 0) as [->|Hn].
  - rewrite Rplus_0_r, Rabs_R0; replace (f a - f a - d * 0) with 0 by ring.
    rewrite Rabs_R0; lra.
  - specialize (Hlim h Hn ltac:(lra)).
    replace (f (a + h) - f a - d * h) with (((f (a + h) - f a) / h - d) * h)
      by (field; exact Hn).
    rewrite Rabs_mult; apply Rmult_le_compat_r; [apply Rabs_pos|lra].
Qed.

Lemma increment_derive (f : R -> R) a d : (forall eps, 0 < eps ->
  exists delta, 0 < delta /\
    forall h, Rabs h <= delta -> Rabs (f (a + h) - f a - d * h) <= eps * Rabs h) ->
  is_derive f a d.
Proof.
  intros H; apply is_derive_Reals; intros eps He.
  destruct (H (eps / 2) ltac:(lra)) as [delta [Hd Hh]].
  exists (mkposreal delta Hd); intros h Hn Hlt; simpl in Hlt.
  specialize (Hh h ltac:(lra)).
  replace ((f (a + h) - f a) / h - d) with ((f (a + h) - f a - d * h) / h)
    by (field; exact Hn).
  assert (Hp : 0 < Rabs h) by now apply Rabs_pos_lt.
  unfold Rdiv; rewrite Rabs_mult, Rabs_inv.
  apply Rmult_lt_reg_r with (Rabs h); [exact Hp|].
  rewrite Rmult_assoc, Rinv_l by lra; nra.
Qed.

(** The slopes of a nondecreasing function are nonnegative; where one is positive,
    the function has risen before. *)
Lemma slope_nonneg (f : R -> R) a d : (forall s t, s <= t -> f s <= f t) ->
  is_derive f a d -> 0 <= d.
Proof.
  intros Hf H; destruct (Rle_or_lt 0 d) as [Hd|Hd]; [exact Hd|exfalso].
  destruct (derive_increment f a d H (- d / 2) ltac:(lra)) as [h [Hh Hi]].
  specialize (Hi h); rewrite Rabs_pos_eq in Hi by lra; specialize (Hi ltac:(lra)).
  apply Rabs_le_between in Hi; pose proof (Hf a (a + h) ltac:(lra)); nra.
Qed.

Lemma slope_rises (f : R -> R) a d : (forall s t, s <= t -> f s <= f t) ->
  is_derive f a d -> 0 < d -> forall s t, s < a < t -> f s < f a < f t.
Proof.
  intros Hf H Hd s t Hst.
  destruct (derive_increment f a d H (d / 2) ltac:(lra)) as [h [Hh Hi]].
  set (r := Rmin h (Rmin (a - s) (t - a))).
  assert (Hr : 0 < r /\ r <= h /\ r <= a - s /\ r <= t - a).
  { unfold r; pose proof (Rmin_l h (Rmin (a - s) (t - a))).
    pose proof (Rmin_r h (Rmin (a - s) (t - a))).
    pose proof (Rmin_l (a - s) (t - a)); pose proof (Rmin_r (a - s) (t - a)).
    repeat split; try lra; repeat apply Rmin_glb_lt; lra. }
  pose proof (Hi r) as H1; pose proof (Hi (- r)) as H2.
  rewrite Rabs_Ropp in H2; rewrite (Rabs_pos_eq r) in H1, H2 by lra.
  specialize (H1 ltac:(lra)); specialize (H2 ltac:(lra)).
  apply Rabs_le_between in H1; apply Rabs_le_between in H2.
  pose proof (Hf s (a + - r) ltac:(lra)); pose proof (Hf (a + r) t ltac:(lra)).
  assert (0 < d * r) by (apply Rmult_lt_0_compat; lra); nra.
Qed.

(** One radius for [n] conditions. *)
Lemma common_radius n (Q : nat -> R -> Prop) :
  (forall i, (i < n)%nat -> exists delta, 0 < delta /\ forall h, Rabs h <= delta -> Q i h) ->
  exists delta, 0 < delta /\
    forall i, (i < n)%nat -> forall h, Rabs h <= delta -> Q i h.
Proof.
  induction n as [|n IH]; intros H; [exists 1; split; [lra|lia]|].
  destruct IH as [d1 [H1 Q1]]; [auto|]; destruct (H n ltac:(lia)) as [d2 [H2 Q2]].
  exists (Rmin d1 d2); split; [now apply Rmin_glb_lt|]; intros i Hi h Hh.
  pose proof (Rmin_l d1 d2); pose proof (Rmin_r d1 d2).
  destruct (Nat.eq_dec i n) as [->|E]; [apply Q2; lra|apply Q1; [lia|lra]].
Qed.

(** The threshold moves no further than the score that moves most. *)
Lemma threshold_moves f n x h r k l m j : curve f -> (j < n)%nat ->
  (forall s t, s < x j - l < t -> f s < f (x j - l) < f t) ->
  (forall i, (i < n)%nat -> Rabs (h i) <= r) ->
  threshold f n x k l -> threshold f n (fun i => x i + h i) k m -> Rabs (m - l) <= r.
Proof.
  unfold threshold; intros Hf Hj Hrise Hh Hl Hm.
  destruct (Rle_or_lt (Rabs (m - l)) r) as [H|H]; [exact H|exfalso].
  assert (Hb : forall i, (i < n)%nat -> - r <= h i <= r)
    by (intros i Hi; apply Rabs_le_between; auto).
  destruct (Rle_or_lt 0 (m - l)) as [Hp|Hp].
  - rewrite Rabs_pos_eq in H by exact Hp.
    assert (∑_(i < n) f (x i + h i - m) < ∑_(i < n) f (x i - l)); [|lra].
    apply (sum_lt_one n _ _ j); [|exact Hj|].
    + intros i Hi; specialize (Hb i Hi); apply (rising f Hf); lra.
    + specialize (Hb j Hj); apply (Hrise _ (x j - l + 1)); lra.
  - rewrite Rabs_left in H by exact Hp.
    assert (∑_(i < n) f (x i - l) < ∑_(i < n) f (x i + h i - m)); [|lra].
    apply (sum_lt_one n _ _ j); [|exact Hj|].
    + intros i Hi; specialize (Hb i Hi); apply (rising f Hf); lra.
    + specialize (Hb j Hj); apply (Hrise (x j - l - 1)); lra.
Qed.

(** ** The derivative *)

(** The increments of the shares sum to zero.  To first order they are the slopes
    times the increments of the arguments, which are small because the threshold moves
    no further than the scores; so its own increment is the weighted mean of theirs. *)
Theorem shares_derivative f n x k l w : curve f -> threshold f n x k l ->
  (forall i, (i < n)%nat -> is_derive f (x i - l) (w i)) ->
  let W := ∑_(i < n) w i in
  0 < W ->
  forall eps, 0 < eps -> exists delta, 0 < delta /\
    forall h r m, (forall i, (i < n)%nat -> Rabs (h i) <= r) -> r <= delta ->
      threshold f n (fun i => x i + h i) k m ->
      let mean := (∑_(i < n) w i * h i) / W in
      Rabs (m - l - mean) <= eps * r /\
      forall i, (i < n)%nat ->
        Rabs (f (x i + h i - m) - f (x i - l) - w i * (h i - mean)) <= eps * r.
Proof.
  intros Hf Hl Hw W HW eps He.
  destruct (sum_pos_term n w HW) as [j [Hj Hwj]].
  assert (Hw0 : forall i, (i < n)%nat -> 0 <= w i)
    by (intros i Hi; apply (slope_nonneg f (x i - l)); [apply (rising f Hf)|auto]).
  assert (HN : 0 <= INR n) by apply pos_INR.
  assert (HWi : 0 < / W) by now apply Rinv_0_lt_compat.
  set (c := eps / (2 * (1 + INR n + INR n * / W))).
  assert (Hden : 0 < 1 + INR n + INR n * / W) by nra.
  assert (Hc : 0 < c) by (apply Rdiv_lt_0_compat; lra).
  assert (Ec : 2 * c * (1 + INR n + INR n * / W) = eps) by (unfold c; field; nra).
  clearbody c.
  destruct (common_radius n
    (fun i h => Rabs (f (x i - l + h) - f (x i - l) - w i * h) <= c * Rabs h))
    as [delta [Hdelta Hi]]; [intros; now apply derive_increment; auto|].
  exists (delta / 2); split; [lra|]; intros h r m Hh Hr Hm mean.
  assert (Hr0 : 0 <= r) by (eapply Rle_trans; [apply Rabs_pos|apply (Hh j Hj)]).
  assert (Hmove : Rabs (m - l) <= r).
  { apply (threshold_moves f n x h r k l m j); auto.
    apply (slope_rises f (x j - l) (w j)); auto; apply (rising f Hf). }
  (* what the increment of a share lacks to first order *)
  set (e := fun i => f (x i + h i - m) - f (x i - l) - w i * (h i - (m - l))).
  assert (Hsmall : forall i, (i < n)%nat -> Rabs (e i) <= 2 * c * r).
  { intros i Hi'; specialize (Hh i Hi').
    assert (Hd : Rabs (h i - (m - l)) <= 2 * r).
    { apply Rabs_le_between in Hh; apply Rabs_le_between in Hmove.
      apply Rabs_le_between; lra. }
    specialize (Hi i Hi' (h i - (m - l)) ltac:(lra)).
    replace (x i - l + (h i - (m - l))) with (x i + h i - m) in Hi by ring.
    fold (e i) in Hi; nra. }
  assert (Esum : W * (m - l) - ∑_(i < n) w i * h i = ∑_(i < n) e i).
  { unfold threshold in Hl, Hm.
    rewrite (sum_ext n e (fun i => (f (x i + h i - m) - f (x i - l))
      - (w i * h i - (m - l) * w i))) by (intros; unfold e; ring).
    rewrite !sum_minus, sum_scal, Hl, Hm; fold W; ring. }
  assert (Hmu : Rabs (m - l - mean) <= 2 * c * INR n * / W * r).
  { replace (m - l - mean) with ((∑_(i < n) e i) * / W)
      by (rewrite <- Esum; unfold mean; field; lra).
    rewrite Rabs_mult, (Rabs_pos_eq (/ W)) by lra.
    replace (2 * c * INR n * / W * r) with (INR n * (2 * c * r) * / W) by ring.
    apply Rmult_le_compat_r; [lra|]; eapply Rle_trans; [apply sum_abs|].
    rewrite <- sum_const; now apply sum_le. }
  split.
  - eapply Rle_trans; [exact Hmu|]; rewrite <- Ec.
    replace (2 * c * (1 + INR n + INR n * / W) * r)
      with (2 * c * INR n * / W * r + 2 * c * r * (1 + INR n)) by ring.
    assert (0 <= 2 * c * r * (1 + INR n)) by (repeat apply Rmult_le_pos; lra); lra.
  - intros i Hi'; specialize (Hsmall i Hi').
    replace (f (x i + h i - m) - f (x i - l) - w i * (h i - mean))
      with (e i - w i * (m - l - mean)) by (unfold e; ring).
    eapply Rle_trans; [apply Rabs_triang|].
    rewrite Rabs_Ropp, Rabs_mult, (Rabs_pos_eq (w i)) by auto.
    assert (HwW : w i * / W <= 1).
    { apply Rmult_le_reg_r with W; [exact HW|].
      rewrite Rmult_assoc, Rinv_l, Rmult_1_r, Rmult_1_l by lra.
      apply (term_le_sum n w i); auto. }
    assert (w i * Rabs (m - l - mean) <= 2 * c * INR n * r).
    { apply Rle_trans with (w i * (2 * c * INR n * / W * r));
        [apply Rmult_le_compat_l; auto|].
      replace (w i * (2 * c * INR n * / W * r))
        with ((2 * c * INR n * r) * (w i * / W)) by ring.
      rewrite <- (Rmult_1_r (2 * c * INR n * r)) at 2; apply Rmult_le_compat_l; [|exact HwW].
      repeat apply Rmult_le_pos; lra. }
    rewrite <- Ec; replace (2 * c * (1 + INR n + INR n * / W) * r)
      with (2 * c * r + 2 * c * INR n * r + 2 * c * r * (INR n * / W)) by ring.
    assert (0 <= 2 * c * r * (INR n * / W))
      by (repeat apply Rmult_le_pos; lra); lra.
Qed.

(** ** One score moves *)

(** The scores with [t] in place of [x j]. *)
Definition move (x : nat -> R) j t i := if Nat.eqb i j then t else x i.

Theorem share_partial_derivative f n x k (l : R -> R) w j : curve f -> (j < n)%nat ->
  (forall t, threshold f n (move x j t) k (l t)) ->
  (forall i, (i < n)%nat -> is_derive f (x i - l (x j)) (w i)) ->
  let W := ∑_(i < n) w i in
  0 < W ->
  is_derive l (x j) (w j / W) /\
  forall i, (i < n)%nat ->
    is_derive (fun t => f (move x j t i - l t)) (x j)
              (w i * ((if Nat.eqb i j then 1 else 0) - w j / W)).
Proof.
  intros Hf Hj Hl Hw W HW.
  assert (Ex : forall i, move x j (x j) i = x i)
    by (intros i; unfold move; destruct (Nat.eqb_spec i j) as [->|_]; reflexivity).
  assert (Hx : threshold f n x k (l (x j))).
  { rewrite <- (Hl (x j)); apply sum_ext; intros; now rewrite Ex. }
  set (v := fun i : nat => if Nat.eqb i j then 1 else 0).
  assert (Em : forall t i, x i + t * v i = move x j (x j + t) i).
  { intros t i; unfold v, move; destruct (Nat.eqb_spec i j) as [->|_]; ring. }
  assert (Hstep : forall eps, 0 < eps -> exists delta, 0 < delta /\
    forall t, Rabs t <= delta ->
      Rabs (l (x j + t) - l (x j) - w j / W * t) <= eps * Rabs t /\
      forall i, (i < n)%nat -> Rabs (f (move x j (x j + t) i - l (x j + t)) - f (x i - l (x j))
        - w i * (v i - w j / W) * t) <= eps * Rabs t).
  { intros eps He.
    destruct (shares_derivative f n x k (l (x j)) w Hf Hx Hw HW eps He) as [delta [Hd H]].
    exists delta; split; [exact Hd|]; intros t Ht.
    destruct (H (fun i => t * v i) (Rabs t) (l (x j + t))) as [H1 H2]; [|exact Ht| |].
    - intros i Hi; unfold v; destruct (Nat.eqb i j); [rewrite Rmult_1_r; lra|].
      rewrite Rmult_0_r, Rabs_R0; apply Rabs_pos.
    - rewrite <- (Hl (x j + t)); apply sum_ext; intros; now rewrite Em.
    - assert (Emean : (∑_(i < n) w i * (t * v i)) / W = w j / W * t).
      { rewrite (sum_ext n _ (fun i => t * (if Nat.eqb i j then w i else 0))).
        - rewrite sum_scal, (sum_delta n j w Hj); unfold Rdiv; ring.
        - intros i _; unfold v; destruct (Nat.eqb i j); ring. }
      cbv beta zeta in H1, H2; fold W in H1, H2; rewrite Emean in H1, H2.
      split; [exact H1|]; intros i Hi; specialize (H2 i Hi).
      rewrite <- Em; replace (w i * (v i - w j / W) * t)
        with (w i * (t * v i - w j / W * t)) by ring; exact H2. }
  split; [|intros i Hi]; apply increment_derive; intros eps He;
    destruct (Hstep eps He) as [delta [Hd H]]; exists delta; (split; [exact Hd|]);
    intros t Ht; destruct (H t Ht) as [H1 H2]; [exact H1|].
  rewrite Ex; exact (H2 i Hi).
Qed.
