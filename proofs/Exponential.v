(** * The curve min(1, e^t)

    With the budget 1 its shares are the softmax ([clipped_softmax]).  For every real
    budget its threshold is unique ([clipped_unique]), and the smallest of the candidates
    that arise when some scores are taken to be at or above it ([clipped_minimum]); no
    candidate need be tested. *)

From Coq Require Import Reals Lra Lia Arith.
From Coquelicot Require Import Coquelicot.
From TopK Require Import Sums Selection.
Open Scope R_scope.

Definition clipped (t : R) := Rmin 1 (exp t).

Lemma exp_rising s t : s <= t -> exp s <= exp t.
Proof. intros [H| ->]; [apply Rlt_le, exp_increasing, H|lra]. Qed.

Lemma clipped_neg t : t <= 0 -> clipped t = exp t.
Proof.
  intros H; unfold clipped; apply Rmin_right; rewrite <- exp_0; now apply exp_rising.
Qed.

Lemma clipped_pos t : 0 <= t -> clipped t = 1.
Proof.
  intros H; unfold clipped; apply Rmin_left; rewrite <- exp_0; now apply exp_rising.
Qed.

Lemma clipped_unit t : 0 < clipped t <= 1.
Proof.
  split; [apply Rmin_glb_lt; [lra|apply exp_pos]|apply Rmin_l].
Qed.

Theorem clipped_curve : curve clipped.
Proof.
  split.
  - intros s t H; apply Rle_min_compat_l; now apply exp_rising.
  - intros t.
    apply (continuous_ext (fun t => exp ((t - Rabs t) * / 2))).
    { intros s; destruct (Rle_or_lt 0 s) as [H|H].
      - rewrite clipped_pos, Rabs_pos_eq by exact H.
        replace ((s - s) * / 2) with 0 by ring; apply exp_0.
      - rewrite clipped_neg, Rabs_left by lra; f_equal; lra. }
    apply continuous_comp; [|apply continuous_exp].
    apply (continuous_mult (fun t => t - Rabs t) (fun _ => / 2)); [|apply continuous_const].
    apply (continuous_minus (fun t => t) Rabs); [apply continuous_id|apply continuous_Rabs].
  - apply (is_lim_ext_loc exp); [|apply is_lim_exp_m].
    exists 0; intros t H; symmetry; apply clipped_neg; lra.
  - apply (is_lim_ext_loc (fun _ => 1)); [|apply is_lim_const].
    exists 0; intros t H; symmetry; apply clipped_pos; lra.
Qed.

(** ** The threshold is a minimum *)

(** Below zero the curve rises strictly, and from zero on it is 1. *)
Lemma clipped_strict_between : strict_between clipped.
Proof.
  intros s t H Hin; unfold clipped in *; pose proof (exp_increasing s t H) as He.
  assert (Hs : exp s < 1).
  { destruct (Rlt_or_le (exp s) 1) as [H1|H1]; [exact H1|exfalso].
    rewrite !Rmin_left in Hin by lra; lra. }
  rewrite (Rmin_right 1 (exp s)) by lra; apply Rmin_glb_lt; lra.
Qed.

Theorem clipped_unique n x k l l' : 0 < k < INR n ->
  threshold clipped n x k l -> threshold clipped n x k l' -> l = l'.
Proof.
  apply (threshold_unique_between clipped n x k l l' clipped_curve clipped_strict_between).
  left; intros t; apply clipped_unit.
Qed.

(** How many scores [top] marks, and the sum of the weights of the others. *)
Definition marked n (top : nat -> bool) := ∑_(i < n) (if top i then 1 else 0).
Definition rest n (x : nat -> R) (top : nat -> bool) :=
  ∑_(i < n) (if top i then 0 else exp (x i)).

(** For a threshold [l], every marking of fewer than [k] scores bounds [e^l] from above,
    because the marked scores hold at most their number; where just the scores at or
    above [l] are marked, the bound is [e^l]. *)
Theorem clipped_minimum n x k l : 0 < k < INR n -> threshold clipped n x k l ->
  (forall top, marked n top < k -> exp l <= rest n x top / (k - marked n top)) /\
  let above i := if Rle_dec l (x i) then true else false in
  marked n above < k /\ exp l = rest n x above / (k - marked n above).
Proof.
  intros [Hk Hkn] Hl; unfold threshold in Hl.
  assert (E : forall t, exp (t - l) = exp t * / exp l)
    by (intros; unfold Rminus; now rewrite exp_plus, exp_Ropp).
  assert (Hz : 0 < exp l) by apply exp_pos.
  assert (Hzi : 0 < / exp l) by now apply Rinv_0_lt_compat.
  assert (Hscale : forall top, / exp l * rest n x top
    = ∑_(i < n) (if top i then 0 else exp (x i - l))).
  { intros top; unfold rest; rewrite <- sum_scal; apply sum_ext; intros i _.
    destruct (top i); [ring|rewrite E; ring]. }
  split.
  - intros top Ht; apply Rle_div_r; [lra|].
    assert (Hs : k <= marked n top + / exp l * rest n x top).
    { rewrite <- Hl, Hscale; unfold marked; rewrite <- sum_plus; apply sum_le; intros i _.
      destruct (top i); [pose proof (clipped_unit (x i - l)); lra|].
      unfold clipped; pose proof (Rmin_r 1 (exp (x i - l))); lra. }
    replace (rest n x top) with (exp l * (/ exp l * rest n x top)) by (field; lra).
    apply Rmult_le_compat_l; lra.
  - intros above.
    assert (Hs : k = marked n above + / exp l * rest n x above).
    { rewrite <- Hl, Hscale; unfold marked; rewrite <- sum_plus; apply sum_ext; intros i _.
      unfold above; destruct (Rle_dec l (x i)).
      - rewrite clipped_pos by lra; ring.
      - rewrite clipped_neg by lra; ring. }
    assert (Hm : marked n above < k).
    { assert (H0 : 0 <= rest n x above).
      { apply sum_nonneg; intros i _; destruct (above i); [lra|apply Rlt_le, exp_pos]. }
      destruct H0 as [H0|H0]; [nra|exfalso].
      (* if nothing were left the marked scores would hold all of [k]: they are all *)
      assert (Hall : forall i, (i < n)%nat -> 0 = (if above i then 0 else exp (x i))).
      { intros i Hi; apply (eq_of_sum_le n (fun _ => 0)
          (fun i => if above i then 0 else exp (x i))); [| |exact Hi].
        - intros j _; destruct (above j); [lra|apply Rlt_le, exp_pos].
        - fold (rest n x above); rewrite sum_zero; lra. }
      assert (Hn : marked n above = INR n).
      { unfold marked; rewrite <- (Rmult_1_r (INR n)), <- sum_const; apply sum_ext.
        intros i Hi; specialize (Hall i Hi); destruct (above i); [reflexivity|].
        pose proof (exp_pos (x i)); lra. }
      rewrite <- H0 in Hs; lra. }
    split; [exact Hm|].
    apply Rmult_eq_reg_r with (k - marked n above); [|lra].
    rewrite Hs at 1; field; lra.
Qed.

(** ** Softmax *)

(** No score can be above the threshold: its share 1 would leave none for the rest. *)
Theorem clipped_softmax n x p : (0 < n)%nat -> shares clipped n x 1 p ->
  forall i, (i < n)%nat -> p i = exp (x i) / ∑_(j < n) exp (x j).
Proof.
  intros Hn [l [Hl Hp]]; unfold threshold in Hl.
  assert (Hexp : forall i, (i < n)%nat -> clipped (x i - l) = exp (x i - l) \/ n = 1%nat).
  { intros i Hi; destruct (Rle_or_lt (x i - l) 0) as [H|H]; [left; now apply clipped_neg|].
    destruct (Nat.eq_dec n 1) as [E|E]; [now right|exfalso].
    set (j := if Nat.eqb i 0 then 1%nat else 0%nat).
    assert (Hj : (j < n)%nat /\ j <> i) by (unfold j; destruct (Nat.eqb_spec i 0); lia).
    assert (Hlt : ∑_(h < n) (if Nat.eqb h i then clipped (x h - l) else 0)
                  < ∑_(h < n) clipped (x h - l)).
    { apply (sum_lt_one n _ _ j); [|apply Hj|].
      - intros h _; destruct (Nat.eqb h i); [lra|apply Rlt_le, clipped_unit].
      - destruct (Nat.eqb_spec j i); [lia|apply clipped_unit]. }
    rewrite (sum_delta n i (fun h => clipped (x h - l)) Hi), clipped_pos in Hlt by lra; lra. }
  intros i Hi; rewrite Hp by exact Hi; destruct (Hexp i Hi) as [Hi'|E].
  - assert (Hall : forall j, (j < n)%nat -> clipped (x j - l) = exp (- l) * exp (x j)).
    { intros j Hj; rewrite <- exp_plus; replace (- l + x j) with (x j - l) by ring.
      destruct (Hexp j Hj) as [Hj'|E]; [exact Hj'|].
      replace j with i by lia; exact Hi'. }
    rewrite (sum_ext _ _ _ Hall), sum_scal in Hl; rewrite (Hall i Hi).
    assert (0 < ∑_(j < n) exp (x j)) by (apply sum_pos; [exact Hn|intros; apply exp_pos]).
    replace (exp (- l)) with (1 / ∑_(j < n) exp (x j)); [field; lra|].
    rewrite <- Hl; field; lra.
  - subst n; replace i with 0%nat by lia; simpl in *.
    rewrite Rplus_0_l in *; rewrite Hl; field; apply Rgt_not_eq, exp_pos.
Qed.
