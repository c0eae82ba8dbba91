(** * The middle rule can stop short of the best assignment

    Five tokens, five experts, one choice for each token and one token for each expert.
    Prices are set by turns: each row's price in the middle of its two best scores, less
    the prices of the columns, then each column's in the same way.  Here the rule
    stops after one round ([middle_rule_rests]) at prices whose dual value is 17/2
    ([middle_rule_dual]), while no assignment is worth more than 8 and one is
    ([best_assignment]); integer prices prove it ([certificate_dual]).  No prices have a
    dual value below that of an assignment ([weak_duality]), so 8 is the smallest
    ([smallest_dual]).
    Nothing is used here but exact arithmetic. *)

From Coq Require Import ZArith QArith Qminmax List Permutation FinFun Lia Lqa.
From TopK Require Import Sums.
Import ListNotations.

(** ** The scores, and the rule *)

Definition scores : list (list Z) :=
  [[1; 2; 0; 1; 1];
   [0; 2; 0; 1; 1];
   [0; 2; 1; 1; 1];
   [2; 1; 2; 2; 0];
   [2; 2; 2; 2; 0]]%Z.

(** The score of token [i] for expert [j]. *)
Definition score (i j : nat) : Z := nth j (nth i scores []) 0%Z.

Definition column (j : nat) : list Z := map (fun r => nth j r 0%Z) scores.

Open Scope Q_scope.

(** The mean of the two largest entries of a list. *)
Fixpoint insert (a : Q) (l : list Q) : list Q :=
  match l with
  | [] => [a]
  | b :: l' => if Qle_bool b a then a :: l else b :: insert a l'
  end.
Definition decreasing (l : list Q) : list Q := fold_right insert [] l.
Definition middle (l : list Q) : Q :=
  match decreasing l with
  | a :: b :: _ => Qred ((a + b) / 2)
  | _ => 0
  end.

(** Scores less prices, entry by entry. *)
Definition less (r : list Z) (prices : list Q) : list Q :=
  map (fun c => inject_Z (fst c) - snd c) (combine r prices).

(** The prices of the rows from those of the columns, and the other way round. *)
Definition row_prices (b : list Q) : list Q := map (fun r => middle (less r b)) scores.
Definition column_prices (a : list Q) : list Q :=
  map (fun j => middle (less (column j) a)) (seq 0 5).

(** ** The dual value *)

Definition add (l : list Q) : Q := fold_right Qplus 0 l.

(** The prices, and what single scores exceed them by (a share is at most one). *)
Definition dual (a b : list Q) : Q :=
  add a + add b +
  add (map (fun ra => add (map (fun s => Qmax 0 (s - snd ra)) (less (fst ra) b)))
           (combine scores a)).

(** ** Statements *)

(** The prices after the first round, from zero. *)
Definition a1 : list Q := row_prices [0; 0; 0; 0; 0].
Definition b1 : list Q := column_prices a1.

Theorem middle_rule_rests : row_prices b1 = a1 /\ column_prices a1 = b1.
Proof. split; vm_compute; reflexivity. Qed.

Theorem middle_rule_dual : dual a1 b1 == 17 # 2.
Proof. vm_compute; reflexivity. Qed.

Close Scope Q_scope.
Open Scope Z_scope.

(** The worth of the assignment that gives expert [s i] to token [i]. *)
Definition value (s : nat -> nat) : Z :=
  fold_right Z.add 0 (map (fun i => score i (s i)) (seq 0 5)).

(** Integer prices that no score exceeds; they sum to 8. *)
Definition row_certificate (i : nat) : Z := nth i [1; 1; 1; 2; 2] 0.
Definition column_certificate (j : nat) : Z := nth j [0; 1; 0; 0; 0] 0.

Lemma certificate i j : (i < 5)%nat -> (j < 5)%nat ->
  score i j <= row_certificate i + column_certificate j.
Proof.
  intros Hi Hj; do 5 (destruct i as [|i]; [do 5 (destruct j as [|j]; [vm_compute; discriminate|]);
    lia|]); lia.
Qed.

Lemma add_permutation (c : nat -> Z) l l' : Permutation l l' ->
  fold_right Z.add 0 (map c l) = fold_right Z.add 0 (map c l').
Proof. intros H; induction H; simpl; lia. Qed.

(** Every assignment is worth at most the sum of the prices, for each expert is given
    once; and one reaches it. *)
Theorem best_assignment :
  (forall s, permutation 5 s -> value s <= 8) /\
  (exists s, permutation 5 s /\ value s = 8).
Proof.
  split.
  - intros s Hs.
    assert (H : fold_right Z.add 0 (map column_certificate (map s (seq 0 5))) = 1).
    { rewrite (add_permutation _ _ _ (permutation_list 5 s Hs)); reflexivity. }
    unfold value; simpl in H |- *.
    assert (E : forall i, (i < 5)%nat ->
      score i (s i) <= row_certificate i + column_certificate (s i))
      by (intros i Hi; apply certificate; [exact Hi|now apply (proj1 Hs)]).
    pose proof (E 0%nat ltac:(lia)); pose proof (E 1%nat ltac:(lia)).
    pose proof (E 2%nat ltac:(lia)); pose proof (E 3%nat ltac:(lia)).
    pose proof (E 4%nat ltac:(lia)).
    unfold row_certificate in *; simpl nth in *; lia.
  - exists (fun i => nth i [4; 3; 1; 2; 0]%nat 5%nat); split; [split|reflexivity].
    + intros i Hi; do 5 (destruct i as [|i]; [simpl; lia|]); lia.
    + intros i j Hi Hj; do 5 (destruct i as [|i];
        [do 5 (destruct j as [|j]; [simpl; (reflexivity || discriminate)|]); lia|]); lia.
Qed.

(** The dual value of these prices is 8 as well: the rule stops above the least. *)
Theorem certificate_dual :
  (dual (map (fun i => inject_Z (row_certificate i)) (seq 0 5))
        (map (fun j => inject_Z (column_certificate j)) (seq 0 5)) == 8)%Q.
Proof. vm_compute; reflexivity. Qed.

(** ** Weak duality *)

Open Scope Q_scope.

Lemma add_nonneg l : (forall q, In q l -> 0 <= q) -> 0 <= add l.
Proof.
  induction l as [|q l IH]; intros H; simpl; [apply Qle_refl|].
  pose proof (H q (or_introl eq_refl)); pose proof (IH (fun r Hr => H r (or_intror Hr))); lra.
Qed.

Lemma member_le q l : (forall r, In r l -> 0 <= r) -> In q l -> q <= add l.
Proof.
  induction l as [|r l IH]; intros H Hq; [destruct Hq|]; simpl.
  assert (Hl : 0 <= add l) by (apply add_nonneg; intros; apply H; now right).
  pose proof (H r (or_introl eq_refl)); destruct Hq as [<-|Hq]; [lra|].
  pose proof (IH (fun r Hr => H r (or_intror Hr)) Hq); lra.
Qed.

Lemma add_permuted (c : nat -> Q) l l' : Permutation l l' ->
  add (map c l) == add (map c l').
Proof. intros H; induction H; simpl; lra. Qed.

(** What the scores of a row exceed their prices by. *)
Definition exceeds (a b : nat -> Q) i :=
  add (map (fun s => Qmax 0 (s - a i)) (less (nth i scores []) (map b (seq 0 5)))).

Lemma exceeds_bound a b i j : (i < 5)%nat -> (j < 5)%nat ->
  inject_Z (score i j) - b j - a i <= exceeds a b i.
Proof.
  intros Hi Hj; unfold exceeds.
  apply Qle_trans with (Qmax 0 (inject_Z (score i j) - b j - a i)); [apply Q.le_max_r|].
  apply member_le.
  - intros r Hr; apply in_map_iff in Hr as [s [<- _]]; apply Q.le_max_l.
  - apply in_map_iff; exists (inject_Z (score i j) - b j); split; [reflexivity|].
    unfold less; apply in_map_iff; exists (score i j, b j); split; [reflexivity|].
    do 5 (destruct i as [|i]; [do 5 (destruct j as [|j]; [simpl; auto 10|]); lia|]); lia.
Qed.

(** The prices of a permutation's experts are those of all experts; a pair is worth its two
    prices and what its score exceeds them by. *)
Theorem weak_duality a b s : permutation 5 s ->
  inject_Z (value s) <= dual (map a (seq 0 5)) (map b (seq 0 5)).
Proof.
  intros Hs.
  assert (Hb := add_permuted b _ _ (permutation_list 5 s Hs)).
  assert (E : dual (map a (seq 0 5)) (map b (seq 0 5)) ==
    add (map a (seq 0 5)) + add (map b (seq 0 5)) + add (map (exceeds a b) (seq 0 5)))
    by reflexivity.
  rewrite E; unfold value.
  assert (H : forall i, (i < 5)%nat ->
    inject_Z (score i (s i)) - b (s i) - a i <= exceeds a b i)
    by (intros i Hi; apply exceeds_bound; [exact Hi|now apply (proj1 Hs)]).
  pose proof (H 0%nat ltac:(lia)); pose proof (H 1%nat ltac:(lia)).
  pose proof (H 2%nat ltac:(lia)); pose proof (H 3%nat ltac:(lia)).
  pose proof (H 4%nat ltac:(lia)).
  cbn [map seq add fold_right] in Hb |- *; rewrite !inject_Z_plus.
  change (inject_Z 0) with 0; lra.
Qed.

Theorem smallest_dual :
  (forall a b, 8 <= dual (map a (seq 0 5)) (map b (seq 0 5))) /\
  (exists a b, dual (map a (seq 0 5)) (map b (seq 0 5)) == 8).
Proof.
  split.
  - intros a b; destruct best_assignment as [_ [s [Hs Hv]]].
    pose proof (weak_duality a b s Hs) as H; rewrite Hv in H; exact H.
  - exists (fun i => inject_Z (row_certificate i)), (fun j => inject_Z (column_certificate j)).
    exact certificate_dual.
Qed.
